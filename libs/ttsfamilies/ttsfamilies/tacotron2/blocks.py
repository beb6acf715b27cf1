"""Parts of Tacotron 2 that both stages load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn.weights import Shards, Source
from ttsfamilies.tacotron2.sizes import COUNTED, HifiganConfig, TacotronSizes, load_config

_EPS: Final = 1e-5
_WEIGHT: Final = ("weight", "running_var")
_BIAS: Final = ("weight", "bias", "running_mean", "running_var")


@dataclass(frozen=True)
class BatchNormed(Source):
    """A convolution's weight or bias, into which the norm behind it is folded, in float64.

    names: the parameter, and of the norm weight and variance, or weight, bias, mean and variance.
    """

    def shapes(self, whole: Sequence[int]) -> dict[str, tuple[int, ...]]:
        norm = dict.fromkeys(self.names[1:], (whole[0],))
        return {self.names[0]: tuple(whole), **norm}

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        own, gain, *others = (part.double() for part in parts)
        factor = gain * torch.rsqrt(others[-1] + _EPS)
        if len(others) == 1:
            return own * factor[:, None, None]
        bias, mean, _ = others
        return (own - mean) * factor + bias


def normed_sources(count: int, ours: str, theirs: str) -> dict[str, Source]:
    """Of so many convolutions with their norms; ours, theirs: what their names begin with."""
    found: dict[str, Source] = {}
    for i in range(count):
        conv, norm = f"{theirs}{i}.0.conv.", f"{theirs}{i}.1."
        for part, of in (("weight", _WEIGHT), ("bias", _BIAS)):
            names = (f"{conv}{part}", *(f"{norm}{name}" for name in of))
            found[f"{ours}{i}.{part}"] = BatchNormed(names)
    return found


def counted(names: Iterable[str]) -> tuple[str, ...]:
    """Names of what training alone reads."""
    return tuple(name for name in names if name.endswith(COUNTED))


def sizes_of(folder: Path) -> tuple[HifiganConfig, TacotronSizes, Shards]:
    """What a folder says of itself, and its tensors; raises CheckpointError."""
    config, shards = load_config(folder), Shards.of(folder)
    sizes = TacotronSizes.of(shards.shapes, folder)
    if sizes.mels != config.num_mels:
        raise CheckpointError(
            f"{folder}: the talker makes {sizes.mels} mels, but config.json says {config.num_mels}"
        )
    return config, sizes, shards
