"""LoRA adapters in PEFT's published format (Hu et al., 2021; huggingface/peft 0.21).

adapter_config.json and adapter_model.safetensors, or what package `voxcpm` saves instead. Nothing
is executed: JSON is parsed into checked values, and tensors are bytes with a shape.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ttscommon.cluster.adapters.config import (
    VOXCPM_CONFIG,
    VOXCPM_WEIGHTS,
    LoraConfig,
    StoredTensor,
    read_tensors,
    shown,
)
from ttscommon.wire.errors import InvalidAdapter
from ttscommon.wire.fields import Array

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
_LENGTH_BYTES: Final = 8
_LONGEST_NAME: Final = 512
_PICKLE: Final = "adapter_model.bin"
# Files that hold an adapter, by who saved it.
_PAIRS: Final = ((CONFIG, WEIGHTS), (VOXCPM_CONFIG, VOXCPM_WEIGHTS))


@dataclass(frozen=True)
class Files:
    """An adapter's two files, as they are. digest: SHA-256, hexadecimal, of both."""

    config: bytes
    weights: bytes
    digest: str

    @classmethod
    def of(cls, config: bytes, weights: bytes) -> Self:
        hashed = hashlib.sha256(len(config).to_bytes(_LENGTH_BYTES, "big"))
        hashed.update(config)
        hashed.update(weights)
        return cls(config, weights, hashed.hexdigest())

    @classmethod
    def read(cls, folder: Path, most_bytes: int) -> Self:
        """Of a folder; raises InvalidAdapter."""
        config, weights = next((pair for pair in _PAIRS if (folder / pair[0]).exists()), _PAIRS[0])
        try:
            if (folder / weights).stat().st_size > most_bytes:
                raise InvalidAdapter(f"{folder.name} has over {most_bytes} bytes")
            return cls.of((folder / config).read_bytes(), (folder / weights).read_bytes())
        except OSError as error:
            hint = f"; {_PICKLE} is a pickle, which is not read" * (folder / _PICKLE).exists()
            reason = f"{Path(str(error.filename)).name}: {error.strerror}{hint}"
            raise InvalidAdapter(f"the adapter {folder.name} cannot be read: {reason}") from error

    def packed(self) -> bytes:
        """Both in one object."""
        return len(self.config).to_bytes(_LENGTH_BYTES, "big") + self.config + self.weights

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """What `packed` gave; raises InvalidAdapter for anything else."""
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
        if len(data) < _LENGTH_BYTES or end > len(data):
            raise InvalidAdapter("the stored adapter is damaged")
        return cls.of(data[_LENGTH_BYTES:end], data[end:])


@dataclass(frozen=True)
class LoraPair:
    """What is added to one module: scale * b @ a @ x. a: [rank, in]; b: [out, rank]."""

    a: StoredTensor
    b: StoredTensor
    scale: float

    @property
    def rank(self) -> int:
        return self.a.shape[0]

    def arrays(self) -> tuple[Array, Array]:
        """Both, float32, the scale in b; raises InvalidAdapter for values that are not finite."""
        return self.a.array(), self.b.array(self.scale)


@dataclass(frozen=True)
class Lora:
    """An adapter of any model: pairs by the name that training gave the module."""

    digest: str
    pairs: Mapping[str, LoraPair]

    @classmethod
    def parse(cls, files: Files, most_rank: int) -> Self:
        """Raises InvalidAdapter for what no model can be adapted by."""
        config = LoraConfig.parse(files.config)
        halves: dict[str, dict[str, StoredTensor]] = {}
        for name, stored in read_tensors(files.weights).items():
            module, half = _named(name, config)
            halves.setdefault(module, {})[half] = stored
        return cls(files.digest, {m: _pair(m, h, config, most_rank) for m, h in halves.items()})

    @property
    def rank(self) -> int:
        """The highest."""
        return max(pair.rank for pair in self.pairs.values())

    def check_values(self) -> None:
        """Raises InvalidAdapter for values that are not finite, also once they are scaled."""
        for pair in self.pairs.values():
            pair.arrays()


def held(folder: Path) -> bool:
    """Whether there is an adapter in a folder, of either kind."""
    return any((folder / config).is_file() for config, _ in _PAIRS)


def _named(name: str, config: LoraConfig) -> tuple[str, str]:
    """The module and the half of it that a tensor is."""
    if len(name) > _LONGEST_NAME or (found := config.names.fullmatch(name)) is None:
        raise InvalidAdapter(
            f"the tensor {shown(name)} is not served: only lora_A.weight and lora_B.weight of"
            " linear modules are"
        )
    return found[1], found[2]


def _pair(
    module: str, halves: Mapping[str, StoredTensor], config: LoraConfig, most_rank: int
) -> LoraPair:
    if len(halves) != 2:
        raise InvalidAdapter(f"{shown(module)} has one of lora_A and lora_B")
    a, b = halves["lora_A"], halves["lora_B"]
    rank, scale = config.of(module)
    if rank > most_rank:
        raise InvalidAdapter(f"{shown(module)} has rank {rank}; at most {most_rank} is served")
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[0] != rank or b.shape[1] != rank:
        raise InvalidAdapter(
            f"{shown(module)} has lora_A {list(a.shape)} and lora_B {list(b.shape)}, which is not"
            f" the config's rank {rank}"
        )
    return LoraPair(a, b, scale)
