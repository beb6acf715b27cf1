"""Goldens of Qwen3-Omni's talker and code2wav, by transformers' own models and generation loop.

Rows of the thinker's embedding and hidden states are given; draws take the goldens' noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import Qwen3OmniMoeTalkerForConditionalGeneration
from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import (
    Qwen3OmniMoeCode2WavConfig,
    Qwen3OmniMoeTalkerConfig,
)
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeCode2Wav

from tests.parity.material import CODEBOOKS, gumbel
from tests.parity.qwen3_omni_cases import CASES, Case, codes, drawn_rows
from tests.parity.reference.draws import keyed_noise

STRIDE = 3
PRE_TOKEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _rope(part: dict[str, Any]) -> dict[str, Any]:
    """With the rotation as newer configs say it."""
    scaling = part.pop("rope_scaling", {})
    theta = part.pop("rope_theta")
    return {**part, "rope_parameters": {"rope_type": "default", **scaling, "rope_theta": theta}}


def _fused(state: dict[str, torch.Tensor], experts: int) -> dict[str, torch.Tensor]:
    """Experts in one tensor, as the model has them."""
    whole = {name: tensor for name, tensor in state.items() if ".experts." not in name}
    homes = {name.split(".experts.")[0] for name in state if ".experts." in name}
    for home in homes:
        each = [f"{home}.experts.{i}." for i in range(experts)]
        rise = [
            torch.cat([state[f"{one}gate_proj.weight"], state[f"{one}up_proj.weight"]])
            for one in each
        ]
        whole[f"{home}.experts.gate_up_proj"] = torch.stack(rise)
        fall = [state[f"{one}down_proj.weight"] for one in each]
        whole[f"{home}.experts.down_proj"] = torch.stack(fall)
    return whole


@cache
def content(folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """config.json and all tensors."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    return config, load_file(folder / "model.safetensors")


def below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Tensors of a part, by their names in it."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


@cache
def talker_of(folder: Path) -> Any:
    """The reference's talker, which is left no parameter of its own."""
    config, tensors = content(folder)
    said = dict(config["talker_config"])
    said["text_config"] = _rope(dict(said["text_config"]))
    said["code_predictor_config"] = _rope(dict(said["code_predictor_config"]))
    talker = Qwen3OmniMoeTalkerForConditionalGeneration(Qwen3OmniMoeTalkerConfig(**said)).eval()
    state = _fused(below(tensors, "talker."), said["text_config"]["num_experts"])
    talker.load_state_dict(state, strict=True)
    return talker


@cache
def tokenizer(folder: Path) -> Any:
    """As transformers' Qwen2 tokenizer divides a text."""
    vocab = json.loads((folder / "vocab.json").read_text("utf-8"))
    lines = (folder / "merges.txt").read_text("utf-8").splitlines()[1:]
    merges = [tuple(line.split(" ")) for line in lines if line]
    found = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    found.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(PRE_TOKEN), behavior="isolated")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    found.pre_tokenizer = pre_tokenizers.Sequence([split, plain])
    return found


def ids(folder: Path, text: str) -> list[int]:
    return list(tokenizer(folder).encode(text, add_special_tokens=False).ids)


def told(folder: Path, case: Case) -> dict[str, Any]:
    """What the whole model's `generate` tells its talker."""
    config, tensors = content(folder)
    talker, table = talker_of(folder), tensors["thinker.model.embed_tokens.weight"]
    c, start = config["talker_config"], config["im_start_token_id"]

    def text(rows: torch.Tensor) -> torch.Tensor:
        return talker.text_projection(rows)

    opening = [start, *ids(folder, f"assistant\n{'' if case.rows else case.text}")]
    role, said = table[opening[:3]], table[opening[3:]]
    if case.rows:
        said = torch.from_numpy(drawn_rows(case, case.rows, 0))
    parts, parts_ids, grid = [], [], None
    if case.instruction:
        end = config["im_end_token_id"]
        turn = [start, *ids(folder, f"user\n{case.instruction}"), end, *ids(folder, "\n")]
        parts.append(text(table[turn]))
        parts_ids += turn
    if case.context is not None:
        p = case.context
        rows = torch.from_numpy(drawn_rows(case, p.rows, 1))
        media = torch.zeros(p.rows, dtype=torch.bool)
        media[p.before : p.before + p.pictures] = True
        parts.append(torch.where(media[:, None], talker.hidden_projection(rows), text(rows)))
        before = [0] * (p.before - 1) + [c["vision_start_token_id"]]
        parts_ids += before + [c["image_token_id"]] * p.pictures + [0] * p.behind
        grid = torch.tensor([p.grid])
    special = [config[f"tts_{name}_token_id"] for name in ("pad", "bos", "eos")]
    pad, bos, eos = text(table[special]).split(1)
    codec = [c[f"codec_{n}_id"] for n in ("nothink", "think_bos", "think_eos")]
    codec += [c["speaker_id"][case.speaker], c["codec_pad_id"], c["codec_bos_id"]]
    heard = talker.get_input_embeddings()(torch.tensor(codec))
    sung = torch.cat([pad.expand(4, -1), bos, text(said[:1])]) + heard
    whole = torch.cat([*parts, text(role), sung])
    found: dict[str, Any] = {
        "inputs_embeds": whole[None],
        "trailing_text_hidden": torch.cat([text(said[1:]), eos])[None],
        "tts_pad_embed": pad[None],
        "attention_mask": torch.ones(1, len(whole), dtype=torch.long),
    }
    found["talker_input_ids"] = torch.tensor(
        [parts_ids + [config["tts_pad_token_id"]] * (len(whole) - len(parts_ids))]
    )
    if grid is not None:
        found["image_grid_thw"] = grid
    return found


def drawing(folder: Path, case: Case) -> dict[str, Any]:
    """Settings in the reference's terms, as the whole model's `generate` gives them."""
    c = content(folder)[0]["talker_config"]
    size, end = c["text_config"]["vocab_size"], c["codec_eos_token_id"]
    found: dict[str, Any] = {
        "max_new_tokens": case.frames + 1,
        "eos_token_id": end,
        "repetition_penalty": case.penalty,
        "suppress_tokens": [i for i in range(size - 1024, size) if i != end],
        "do_sample": case.temperature[0] > 0,
    }
    if found["do_sample"]:
        found |= {"temperature": case.temperature[0], "top_k": case.top_k[0]}
        found["top_p"] = case.top_p[0]
    return found


@contextmanager
def predictor_drawing(talker: Any, case: Case) -> Iterator[None]:
    """The model gives its code predictor a top_k and a top_p of its own; here the case's."""
    plain = talker.code_predictor.generate

    def generate(**arguments: Any) -> Any:
        if arguments.get("do_sample"):
            arguments |= {"top_k": case.top_k[1], "top_p": case.top_p[1]}
            arguments["temperature"] = case.temperature[1]
        return plain(**arguments)

    with patch.object(talker.code_predictor, "generate", generate):
        yield


def generated(folder: Path, case: Case) -> dict[str, Any]:
    """Frames, and where the rows of context stand."""
    talker, asked = talker_of(folder), told(folder, case)

    def noise(draw: int, count: int) -> Any:
        return gumbel(case.seed, *divmod(draw, CODEBOOKS), count)

    with keyed_noise(noise), predictor_drawing(talker, case), torch.inference_mode():
        result = talker.generate(
            **asked,
            **drawing(folder, case),
            output_hidden_states=True,
            return_dict_in_generate=True,
        )
        made = [hidden[-1][0].tolist() for hidden in result.hidden_states if hidden[-1] is not None]
    found: dict[str, Any] = {"codes": made}
    if case.context is not None:
        places, _ = talker.get_rope_index(
            asked["talker_input_ids"], asked["image_grid_thw"], None, asked["attention_mask"]
        )
        found["places"] = places[:, 0, : case.context.rows].T.long().tolist()
    return found


def waveform(folder: Path) -> Any:
    """[samples], one shot: shorter than the frames by the lag."""
    config, tensors = content(folder)
    said = _rope(dict(config["code2wav_config"]))
    net = Qwen3OmniMoeCode2Wav(Qwen3OmniMoeCode2WavConfig(**said)).eval()
    net.load_state_dict(below(tensors, "code2wav."), strict=True)
    with torch.inference_mode():
        return net(torch.from_numpy(codes().T[None].astype(np.int64)))[0, 0].numpy()


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    found = {case.name: generated(checkpoints / case.checkpoint, case) for case in CASES}
    (goldens / "qwen3_omni.json").write_text(json.dumps(found) + "\n", "utf-8")
    samples = waveform(checkpoints / CASES[0].checkpoint)
    np.savez_compressed(
        goldens / "code2wav.npz", samples=samples[::STRIDE], count=np.array(len(samples))
    )
    print({name: len(case["codes"]) for name, case in found.items()}, samples.std())
