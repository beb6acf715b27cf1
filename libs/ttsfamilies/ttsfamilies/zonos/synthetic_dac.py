"""DAC: published names, small widths, weights drawn from a seed."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.dac import load_sizes
from ttscommon.engine.nn.dac import DacEncoder, encoder_sources
from ttscommon.engine.nn.weights import published_shapes, unfilled
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import normals, save
from ttsfamilies.zonos.codec import DacDecoder, sources

TINY: Final[dict[str, Any]] = {
    "model_type": "dac",
    "encoder_hidden_size": 4,
    "downsampling_ratios": [2, 4, 8, 8],
    "decoder_hidden_size": 32,
    "upsampling_ratios": [8, 8, 4, 2],
    "n_codebooks": 9,
    "codebook_size": 1024,
    "codebook_dim": 8,
    "sampling_rate": 44_100,
    "hidden_size": 64,
    "hop_length": 512,
}


def write_codec(folder: Path, *, seed: int = 0) -> None:
    """Write config.json and model.safetensors, encoder and decoder."""
    dump_json(folder / "config.json", TINY)
    encoder, decoder = (
        unfilled(DacEncoder, load_sizes(folder)),
        unfilled(DacDecoder, load_sizes(folder)),
    )
    shapes = published_shapes(encoder, encoder_sources(encoder))
    shapes |= published_shapes(decoder, sources(decoder))
    tensors = {name: drawn_sound(name, shape, seed) for name, shape in shapes.items()}
    save(folder, tensors.items())


def drawn_sound(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """A tensor of such a codec. Signals keep about their size: samples stay within -1..1 without
    all being near either.
    """
    values = torch.from_numpy(normals(name, shape, seed))
    if name.endswith("alpha"):
        return 1 + 0.2 * values
    if name.endswith("bias"):
        return 0.05 * values
    if name.endswith(("codebook.weight", "codebook.embed")):
        return values
    # A step of a transposed convolution is the sum of two taps.
    fan_in = 2 * shape[0] if ".conv_t1." in name else prod(shape[1:])
    scale: float = 0.6 * fan_in**-0.5
    return values * scale


FAMILY: Final = SyntheticFamily(
    lambda folder, size, kind, seed: write_codec(folder, seed=seed), "a codec"
)
