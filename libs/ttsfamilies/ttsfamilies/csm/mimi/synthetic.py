"""Mimi's decoder: published names, weights drawn from a seed.

It is added to a folder whose config.json says of what sizes: a codec's own, or a talker's that
holds it. A folder without one becomes a tiny codec.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.synthetic import SyntheticFamily, of_parts
from ttsfamilies.base.synthetic.tensors import normals, shapes_of
from ttsfamilies.csm.mimi.net import MimiDecoder, load_sizes, sources

_FILE: Final = "model.safetensors"
TINY: Final[dict[str, Any]] = {
    "model_type": "mimi",
    "sampling_rate": 24_000,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "num_filters": 4,
    "upsample_groups": 32,
    "codebook_dim": 16,
    "num_quantizers": 4,
    "sliding_window": 6,
}
# Mean and deviation of what is no weight of a product.
_SPREADS: Final = (
    ("cluster_usage", 1.2, 0.1),
    ("embed_sum", 0.0, 0.5),
    ("embedding_sum", 0.0, 0.5),
    ("norm.weight", 1.0, 0.1),
    ("norm1.weight", 1.0, 0.1),
    ("norm2.weight", 1.0, 0.1),
    ("scale", 0.3, 0.05),
    ("bias", 0.0, 0.05),
)


def add_decoder(folder: Path, *, seed: int = 0) -> None:
    """Write the decoder's tensors beside those that are there, or a tiny codec."""
    if not (folder / "config.json").exists():
        dump_json(folder / "config.json", TINY)
    sizes, theirs = load_sizes(folder)
    path = folder / _FILE
    tensors = load_file(path) if path.exists() else {}
    for name, shape in shapes_of(partial(sources, theirs=theirs), MimiDecoder, sizes).items():
        if name not in tensors:
            tensors[name] = drawn(name, shape, seed)
    save_file(tensors, path, {"format": "pt"})


def drawn(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """A tensor of the decoder, by its published name."""
    values = torch.from_numpy(normals(name, shape, seed))
    for ending, mean, deviation in _SPREADS:
        if name.endswith(ending) or f"{ending}." in name:
            return values.mul(deviation).add(mean)
    if len(shape) == 2 or shape[-1] == 1:
        return values.mul(float(shape[1]) ** -0.5)
    # A transposed convolution adds up two of its taps; the last one is kept within -1..1.
    transposed = shape[-1] % 2 == 0
    fan_in = 2 * shape[0] if transposed else shape[1] * shape[2]
    loudness = 0.15 if shape[0] == 1 else 1.0
    return values.mul(loudness * float(fan_in) ** -0.5)


FAMILY: Final = SyntheticFamily(
    of_parts(add_decoder), "a codec, or the decoder of the folder's talker"
)
