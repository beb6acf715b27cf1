"""Admission's inputs: its limits, the applicant, and what there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ttscommon.cluster.admission.capacity import View


@dataclass(frozen=True)
class Applicant:
    """A request at the door. `resumed`: it was admitted before, here or at another gateway.
    `max_wait_s`: how long it would wait for room, where that is more than all wait. `offline`: see
    OfflineStreams.
    """

    tenant: str
    model: str
    characters: int = 0
    priority: int = 5
    resumed: bool = False
    max_wait_s: float = 0.0
    offline: bool = False

    @property
    def kinds(self) -> tuple[str, str, str]:
        """What it takes one of: its model's streams, its key's streams and its key's requests."""
        return f"model {self.model}", f"streams {self.tenant}", f"requests {self.tenant}"


class Capacity(Protocol):
    """What the live replicas can take; see Catalogue. own, offline: streams here, by model."""

    own: Counter[str]
    offline: Counter[str]

    def served(self) -> Sequence[str]: ...

    def capacity(self, model: str) -> View: ...

    def adopt(self, model: str) -> None: ...
