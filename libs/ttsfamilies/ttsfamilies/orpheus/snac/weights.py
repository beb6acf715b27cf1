"""Loading the decoder: weight norm is folded once, whichever way it is published."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn.weights import Shards
from ttsfamilies.orpheus.snac.config import load_config
from ttsfamilies.orpheus.snac.net import SnacDecoder

# Length and direction: of torch's parametrisation, and of the one before it.
_PAIRS: Final = (
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
    ("weight_g", "weight_v"),
)


def load_decoder(folder: Path, device: str = "cpu") -> SnacDecoder:
    """The decoder in a codec's folder, in float32; raises CheckpointError."""
    with torch.device("meta"):
        net = SnacDecoder(load_config(folder))
    shards = Shards.of(folder)
    state = {name: _folded(name, tensor.shape, shards) for name, tensor in net.state_dict().items()}
    net.load_state_dict(state, assign=True)
    return net.to(device).eval().requires_grad_(False)


def _folded(name: str, shape: torch.Size, shards: Shards) -> Tensor:
    found = _read(name, shards)
    if found.shape != shape:
        raise CheckpointError(
            f"{shards.where(name)}: {name} is {list(found.shape)}, but config.json makes it"
            f" {list(shape)}"
        )
    return found


def _read(name: str, shards: Shards) -> Tensor:
    if name in shards.shapes:
        return shards.read(name).float()
    stem = name.removesuffix("weight")
    for length, direction in _PAIRS:
        if stem + length in shards.shapes and stem + direction in shards.shapes:
            v = shards.read(stem + direction).float()
            size = torch.linalg.vector_norm(v, dim=(1, 2), keepdim=True)
            folded: Tensor = shards.read(stem + length).float() * v / size
            return folded
    raise CheckpointError(f"{shards.where('').parent} lacks {name}: it is no codec of SNAC")
