"""Pocket TTS: published names, small or published sizes, weights drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import normals, save, shapes_of, spread_out
from ttsfamilies.base.synthetic.tokenizers import BEGINS, LETTERS, words_in_pieces, write_pieces
from ttsfamilies.pocket_tts.codec import LatentDecoder
from ttsfamilies.pocket_tts.codec import sources as decoder_sources
from ttsfamilies.pocket_tts.family import FOLDER
from ttsfamilies.pocket_tts.net import PocketEncoder, PocketNet, encoder_sources, sources
from ttsfamilies.pocket_tts.sizes import (
    MODEL_TYPE,
    PocketBackbone,
    languages,
    load_config,
    published,
)

_MARKS: Final = ".,!?;:'\"-()\u2026"
_VOICE_POSITIONS: Final = 21
_WINDOW: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "d_model": 16,
        "input_dimension": 16,
        "output_dimensions": [16],
        "num_heads": 2,
        "num_layers": 2,
        "layer_scale": 0.01,
        "context": 6,
        "max_period": 10_000,
        "dim_feedforward": 32,
    }
)
_SEANET: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "dimension": 16,
        "channels": 1,
        "n_filters": 4,
        "n_residual_layers": 1,
        "ratios": [6, 5, 4],
        "kernel_size": 7,
        "residual_kernel_size": 3,
        "last_kernel_size": 3,
        "dilation_base": 2,
        "pad_mode": "constant",
        "compress": 2,
    }
)


def tiny(
    flow: str = "lsd", lm: Mapping[str, Any] = MappingProxyType({}), **changes: Any
) -> dict[str, Any]:
    """A config.json. lm: changes of the backbone. changes: of `flow_lm`, `mimi` or the rest."""
    backbone = {"d_model": 32, "hidden_scale": 2, "max_period": 10_000, "num_heads": 4}
    found: dict[str, Any] = {
        "model_type": MODEL_TYPE,
        "replace_characters": {"\u2019": "'", '"': ""},
        "flow_lm": {
            "insert_bos_before_voice": True,
            "flow": {"dim": 32, "depth": 2, "type": flow},
            "transformer": {**backbone, "num_layers": 2, **lm},
            "lookup_table": {"dim": 32, "n_bins": len(pieces()), "tokenizer": "tokenizers"},
        },
        "mimi": {
            "sample_rate": 24_000,
            "channels": 1,
            "frame_rate": 12.5,
            "inner_dim": 8,
            "outer_dim": 16,
            "seanet": dict(_SEANET),
            "transformer": dict(_WINDOW),
            "quantizer": {"dimension": 8, "output_dimension": 16},
        },
    }
    for part in ("flow_lm", "mimi"):
        found[part] |= changes.pop(part, {})
    return found | changes


def small_decoder() -> dict[str, Any]:
    """Changes of `mimi`: a decoder of sizes of its own, as small checkpoints have it."""
    window = {"d_model": 8, "input_dimension": 8, "output_dimensions": [8], "num_layers": 3}
    return {
        "outer_dim": 8,
        "quantizer": {"dimension": 8, "output_dimension": 8},
        "decoder_seanet": {**_SEANET, "dimension": 8, "n_filters": 3, "kernel_size": 3},
        "decoder_transformer": {**_WINDOW, **window, "context": 9},
    }


def write_checkpoint(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    ending: float = -5.5,
    voices: Sequence[str] = ("slt",),
    words: Sequence[str] = (),
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write tensors, tokenizer, configuration and published voices.

    ending: the bias of the logit that ends speech, which is otherwise of unit size. words: those
    that the tokenizer has whole, besides its own.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    dump_json(folder / "config.json", dict(config or tiny()))
    c = load_config(folder)
    _write_tokenizer(folder, c.flow_lm.lookup_table.n_bins, words)
    shapes = shapes_of(sources, PocketNet, c)
    shapes |= shapes_of(decoder_sources, LatentDecoder, c.mimi)
    shapes |= shapes_of(encoder_sources, PocketEncoder, c.mimi)
    tensors = {name: _drawn(name, shape, seed) for name, shape in sorted(shapes.items())}
    tensors["flow_lm.out_eos.bias"].fill_(ending)
    tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    save(folder, tensors.items())
    for voice in voices:
        write_voice(folder / FOLDER / f"{voice}.safetensors", c.flow_lm.transformer, seed)


def write_voice(
    path: Path, c: PocketBackbone, seed: int, positions: int = _VOICE_POSITIONS
) -> None:
    """Keys and values as `export-voice` stores them, with room behind them that holds nothing."""
    tensors = {}
    for layer in range(c.num_layers):
        name = f"transformer.layers.{layer}.self_attn/"
        shape = (2, 1, positions, c.kv_heads, c.head_dim)
        room = torch.full((2, 1, 3, c.kv_heads, c.head_dim), float("nan"))
        kept = torch.from_numpy(normals(f"{path.stem} {name}", shape, seed))
        tensors[f"{name}cache"] = torch.cat((kept, room), 2)
        tensors[f"{name}offset"] = torch.tensor([positions])
    save_file(tensors, path)


def _drawn(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    if name.endswith(".freqs"):
        values = np.exp(-np.log(10_000) * np.arange(*shape) / shape[0]).astype(np.float32)
        return torch.from_numpy(values)
    return spread_out(name, shape, seed, _spread)


def _spread(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Standard deviation and mean that keep signals of about unit size."""
    if name.endswith("bias"):
        return 0.05, 0.0
    if len(shape) == 1 or name.endswith("bos_before_voice"):
        if name.endswith((".scale", ".alpha", "emb_std")) or "norm" in name or "in_ln" in name:
            return (0.05, 0.3) if name.endswith(".scale") else (0.1, 1.0)
        return 0.5, 0.0
    if "embed.weight" in name:
        return 0.5, 0.0
    if ".convtr." in name:
        return float(2 * (shape[0] if shape[1] > 1 else 1)) ** -0.5, 0.0
    loudness = 0.15 if shape[0] == 1 and name.startswith("mimi.") else 1.0
    return loudness * float(np.prod(shape[1:])) ** -0.5, 0.0


def pieces() -> list[str]:
    """Of the small tokenizer: what it does not know, some words, and single characters."""
    return ["<unk>", *words_in_pieces(), *dict.fromkeys(f"{BEGINS}{LETTERS}{_MARKS}")]


def _write_tokenizer(folder: Path, ids: int, words: Sequence[str]) -> None:
    """tokenizer.json of so many pieces, which words that no text has fill up."""
    known = list(dict.fromkeys([*pieces(), *(f"{BEGINS}{word}" for word in words)]))
    known += [f"{BEGINS}qx{i}" for i in range(ids - len(known))]
    write_pieces(folder, known)


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A folder that both stages load, of small sizes or of those of a published language."""
    write_checkpoint(folder, tiny() if size == "tiny" else published(size), seed=seed)


FAMILY: Final = SyntheticFamily(
    write_family, "a talker, its codec and a voice", sizes=("tiny", *languages())
)
