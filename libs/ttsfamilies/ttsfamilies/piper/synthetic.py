"""Piper: published names and node names, small widths, weights drawn from a seed, as ONNX.

The graph has the convolutions and tables that weights are found by, and computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.codec.hifigan import Generator, ResidualSizes, Sizes, UpsampleSizes
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import model, node, normals
from ttsfamilies.piper.net import Durations, Encoder, Flow, PriorEncoder, Vits

Array = npt.NDArray[np.float32]
_SYMBOLS: Final = " !',-.:;?abcdefghijklmnopqrstuvwxyz"
_CHANNELS, _LATENT, _SPEAKER = 8, 4, 6
_STAGES: Final = (
    UpsampleSizes(16, 8, (ResidualSizes(3, (1, 2), paired=False),)),
    UpsampleSizes(16, 8, (ResidualSizes(3, (1, 3), paired=False),)),
    UpsampleSizes(8, 4, (ResidualSizes(3, (1,), paired=False),)),
)
# The exporter folds weight norm, and the weights lose their names.
_ANONYMOUS: Final = (".in_layers.", ".res_skip_layers.", ".cond_layer.")
_TABLE_NODES = {"enc_p.emb": "/enc_p/emb/Gather", "emb_g": "/emb_g/Gather"}


def config(speakers: int = 1) -> dict[str, Any]:
    """The JSON file: a voice of letters."""
    table = {symbol: [at] for at, symbol in enumerate(f"_^${_SYMBOLS}")}
    named = {f"speaker-{n}": n for n in range(speakers)} if speakers > 1 else {}
    return {
        "audio": {"sample_rate": 22_050, "quality": "tiny"},
        "inference": {"noise_scale": 0.667, "length_scale": 1, "noise_w": 0.8},
        "phoneme_type": "text",
        "phoneme_id_map": table,
        "num_symbols": 64,
        "num_speakers": speakers,
        "speaker_id_map": named,
        "language": {"code": "en_US"},
        "dataset": "slt",
    }


def network(speakers: int = 1) -> nn.Module:
    """All modules of a voice, by their published names; no memory."""
    speaker = _SPEAKER if speakers > 1 else 0
    with torch.device("meta"):
        text = PriorEncoder(64, _CHANNELS, _LATENT, Encoder(2, _CHANNELS, 16, 2, 3))
        whole: nn.Module = Vits(
            text,
            Durations(_CHANNELS, _CHANNELS, speaker, 2, 3),
            Flow(_LATENT, _CHANNELS, 2, 5, speaker),
            nn.Embedding(speakers, _SPEAKER) if speaker else None,
        )
        whole.dec = Generator(Sizes(_LATENT, 32, speaker, _STAGES))
    return whole


def write_voice(place: Path, *, speakers: int = 1, seed: int = 0) -> None:
    """Write NAME.onnx and its JSON: `place` is the file, or a folder for voice.onnx."""
    path = place if place.suffix == ".onnx" else place / "voice.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    dump_json(path.with_name(f"{path.name}.json"), config(speakers))
    whole = network(speakers)
    tensors = {n: _drawn(n, tuple(t.shape), seed) for n, t in whole.state_dict().items()}
    path.write_bytes(onnx_of(whole, tensors))


def _drawn(name: str, shape: tuple[int, ...], seed: int) -> Array:
    drawn = normals(name, shape, seed)
    if name.endswith(("gamma", "scale")):
        return np.float32(1.0) + np.float32(0.1) * drawn
    if name == "dp.flows.0.m":
        return drawn * np.float32(0.1) - np.float32(1.2)  # letters of two to six frames
    width = np.prod(shape[1:]) if len(shape) > 1 else 1.0
    return drawn * np.float32(0.1 if len(shape) < 2 else 0.7 / np.sqrt(max(1.0, width)))


def onnx_of(whole: nn.Module, tensors: Mapping[str, Array]) -> bytes:
    """A model with these tensors, and the nodes of the network's convolutions and tables."""
    names = {name: _stored_name(name, at) for at, name in enumerate(tensors)}
    return model(_nodes(whole, names), {names[name]: array for name, array in tensors.items()})


def _stored_name(name: str, at: int) -> str:
    if name == "enc_p.emb.weight":
        return "sid"
    if name == "dp.flows.0.scale":
        return "/dp/flows.0/Exp_output_0"
    if name.endswith(".weight") and any(part in name for part in _ANONYMOUS):
        return f"onnx::Conv_{at}"
    return name


def _nodes(whole: nn.Module, names: Mapping[str, str]) -> Iterator[bytes]:
    for name, module in whole.named_modules():
        if isinstance(module, nn.Embedding):
            yield node("Gather", _TABLE_NODES[name], [names[f"{name}.weight"], "ids"], {})
        if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
            parts = [p for p in ("weight", "bias") if f"{name}.{p}" in names]
            kind = "ConvTranspose" if isinstance(module, nn.ConvTranspose1d) else "Conv"
            ints = {"dilations": module.dilation[0], "strides": module.stride[0]}
            told = ["x", *(names[f"{name}.{part}"] for part in parts)]
            yield node(kind, f"/{name.replace('.', '/')}/{kind}", told, ints)


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A voice of one speaker, or of two."""
    write_voice(folder, speakers=2 if kind == "speakers" else 1, seed=seed)


FAMILY: Final = SyntheticFamily(write_family, "a voice with its generator", kinds=("", "speakers"))
