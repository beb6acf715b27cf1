"""DAC: published names, small widths, weights drawn from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.codec_sizes import load_sizes
from ttsfamilies.base.codec.dac_encoder import DacEncoder, encoder_sources
from ttsfamilies.base.synthetic import SyntheticFamily, of_parts
from ttsfamilies.base.synthetic.tensors import drawn_sound, save, shapes_of
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
    sizes = load_sizes(folder)
    shapes = shapes_of(encoder_sources, DacEncoder, sizes) | shapes_of(sources, DacDecoder, sizes)
    tensors = {name: drawn_sound(name, shape, seed) for name, shape in shapes.items()}
    save(folder, tensors.items())


FAMILY: Final = SyntheticFamily(of_parts(write_codec), "a codec")
