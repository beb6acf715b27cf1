"""Folders of transformers 4, saved again as transformers 5 writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from ttscommon.engine.checkpoint import dump_json

# transformers.models.qwen2.tokenization_qwen2 (5.23.0).
_PRE_TOKEN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_MIXTURE: Final = "shared_expert_intermediate_size"


def save_again(folder: Path) -> None:
    """Rewrite a checkpoint's configs and Qwen2 tokenizers; tensors keep their names."""
    for path in folder.rglob("config.json"):
        dump_json(path, _renamed(json.loads(path.read_text("utf-8"))))
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
