"""SNAC: published names, small widths, weights drawn from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.nn.weights import unfilled
from ttsfamilies.base.synthetic import SyntheticFamily, of_parts
from ttsfamilies.base.synthetic.tensors import drawn_sound, normals, save
from ttsfamilies.orpheus.codec import SnacDecoder, load_config

TINY: Final[dict[str, Any]] = {
    "sampling_rate": 24_000,
    "encoder_dim": 2,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 32,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 4096,
    "codebook_dim": 8,
    "vq_strides": [4, 2, 1],
    "noise": True,
    "depthwise": True,
}
# Of every convolution's rows: samples stay within -1..1 without all being near either.
_LENGTH: Final = 0.7


def write_codec(folder: Path, *, seed: int = 0) -> None:
    """Write config.json and model.safetensors with the decoder's tensors."""
    dump_json(folder / "config.json", TINY)
    net = unfilled(SnacDecoder, load_config(folder))
    tensors: dict[str, Tensor] = {}
    for name, tensor in net.state_dict().items():
        tensors |= _published(name, tuple(tensor.shape), seed)
    save(folder, tensors.items())


def _published(name: str, shape: tuple[int, ...], seed: int) -> dict[str, Tensor]:
    """A parameter's tensors: weights of convolutions as length and direction."""
    if not name.endswith("weight") or name.endswith("codebook.weight"):
        return {name: drawn_sound(name, shape, seed)}
    stem = f"{name.removesuffix('weight')}parametrizations.weight.original"
    length = torch.full((shape[0], 1, 1), _LENGTH)
    return {f"{stem}0": length, f"{stem}1": torch.from_numpy(normals(name, shape, seed))}


FAMILY: Final = SyntheticFamily(of_parts(write_codec), "a codec")
