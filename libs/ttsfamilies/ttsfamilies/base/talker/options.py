"""A deployment's settings for the loading of a model, and its places for adapters. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ttscommon.cluster.adapters.peft import Lora

if TYPE_CHECKING:
    from ttscommon.engine.device.device import Device


LEXICON: Final = Path("voices/vesper")


@dataclass(frozen=True)
class ModelOptions:
    """pads: late text is padded instead of waited for, by families that can. device: None is the
    CPU. lexicon: the folder of the English lexicon, for voices that bring none. codec: the folder
    of the codec, where that is published by itself, for families whose talker encodes recordings
    with it.
    """

    pads: bool = False
    device: Device | None = None
    lexicon: Path = LEXICON
    codec: Path | None = None

    @property
    def where(self) -> str:
        """Where weights go, as torch names it."""
        return "cpu" if self.device is None else str(self.device.where)

    @property
    def dtype(self) -> str:
        """Of a published checkpoint's weights: exact on the CPU, as published on a device."""
        return "float32" if self.device is None else "bfloat16"


ON_CPU: Final = ModelOptions()


# Unless the deployment says otherwise.
MOST_RANK: Final = 64


class Sized(Protocol):
    """An adapter that was made ready for a model. size: bytes that it takes there."""

    @property
    def size(self) -> int: ...


class Adaptable(Protocol):
    """Holds up to `slots` adapters at once, of ranks up to `most_rank`.

    `fitted` and `put` are slow and run beside the engine, from any thread.
    """

    slots: int
    most_rank: int

    @property
    def reserved_bytes(self) -> int:
        """Taken by their places, where those are made at once."""

    @property
    def modules(self) -> Mapping[str, tuple[int, int]]:
        """Outputs and inputs of all that can be adapted, by the names of the checkpoint."""

    def fitted(self, lora: Lora) -> Sized:
        """Raises InvalidAdapter for an adapter of another model."""

    def put(self, slot: int, fitted: Any) -> None:
        """Have a slot, which no stream uses, hold this adapter; it may be used afterwards."""

    def drop(self, slot: int) -> None:
        """Have a slot, which no stream uses, hold nothing."""

    def row_id(self, digest: str) -> int:
        """What `TalkerStream` tells the device of an adapter that is held; 0 is none."""
