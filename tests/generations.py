"""Folders of transformers 4, saved again as transformers 5 writes them."""

import json
import re
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from ttscommon.engine.checkpoint import dump_json

# transformers.models.qwen2.tokenization_qwen2 (5.23.0).
_PRE_TOKEN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_EXPERT: Final = re.compile(r"\.experts\.\d+\.(gate|up|down)_proj\.weight$")
_MIXTURE: Final = "shared_expert_intermediate_size"


def save_again(folder: Path) -> None:
    """Rewrite a checkpoint's configs and Qwen2 tokenizers; experts become one tensor."""
    for path in folder.rglob("config.json"):
        dump_json(path, _sorted(_renamed(json.loads(path.read_text("utf-8")))))
    for path in folder.glob("model*.safetensors"):
        _fuse(path)
    for path in folder.rglob("vocab.json"):
        _as_whole(path.parent)


def _renamed(config: Any) -> Any:
    if not isinstance(config, dict):
        return config
    found = {name: _renamed(part) for name, part in config.items()}
    if (theta := found.pop("rope_theta", None)) is not None:
        scaling = found.pop("rope_scaling", None) or {}
        found["rope_parameters"] = {"rope_type": "default", **scaling, "rope_theta": theta}
    if _MIXTURE in found:
        found["num_local_experts"] = found.pop("num_experts")
    if (kind := found.pop("torch_dtype", None)) is not None:
        found["dtype"] = kind
    return found


def _sorted(config: Any) -> Any:
    """Keys in order, as they are saved."""
    if not isinstance(config, dict):
        return config
    return {name: _sorted(config[name]) for name in sorted(config)}


def _fuse(path: Path) -> None:
    """As a model that was built and trained is saved; one that was loaded keeps its names."""
    tensors = load_file(path)
    by_home: dict[str, dict[tuple[int, str], Any]] = {}
    for name in [name for name in tensors if _EXPERT.search(name)]:
        home, number, part = name.rsplit(".", 3)[0], *name.rsplit(".", 3)[1:3]
        by_home.setdefault(home, {})[int(number), part] = tensors.pop(name)
    for home, parts in by_home.items():
        count = 1 + max(number for number, _ in parts)
        gates = [torch.cat([parts[i, "gate_proj"], parts[i, "up_proj"]]) for i in range(count)]
        tensors[f"{home}.gate_up_proj"] = torch.stack(gates)
        tensors[f"{home}.down_proj"] = torch.stack([parts[i, "down_proj"] for i in range(count)])
    if by_home:
        path.unlink()
        save_file(tensors, path, {"format": "pt"})


def _as_whole(folder: Path) -> None:
    """tokenizer.json in place of vocab.json and merges.txt."""
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    rules = [line.split(" ") for line in merges.read_text("utf-8").splitlines()[1:]]
    names = json.loads(vocab.read_text("utf-8"))
    made = Tokenizer(models.BPE(vocab=names, merges=[(left, right) for left, right in rules]))
    made.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(_PRE_TOKEN), behavior="isolated")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([split, plain])
    told = folder / "tokenizer_config.json"
    content = json.loads(told.read_text("utf-8"))
    added = content.pop("added_tokens_decoder")
    whole = json.loads(made.to_str())
    whole["added_tokens"] = [{"id": int(i), **token} for i, token in added.items()]
    dump_json(folder / "tokenizer.json", whole)
    dump_json(told, content)
    vocab.unlink()
    merges.unlink()
