"""Places for adapters, one a row, of a family whose networks can be adapted. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from ttscommon.cluster.adapters.peft import Lora

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
