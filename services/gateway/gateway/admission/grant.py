"""The applicant for a place among a gateway's streams, and the place that a grant gives it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
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


class Host(Protocol):
    """What holds the place; see Admission."""

    def clock(self) -> float: ...
    def sounded(self, grant: Grant) -> None: ...
    def charge(self, tenant: str, characters: int) -> None: ...
    def rested(self, grant: Grant) -> None: ...
    def woke(self, grant: Grant) -> None: ...


def _unheard(now: float) -> float | None:
    del now
    return None


@dataclass(eq=False)
class Grant:
    """A place for one request. `priority` is what the stages are to give it.

    among: silent streams of the model when it began, itself among them. slack_s: the playback that
    its listener has left at a moment, None where that says nothing of the workers. give_up: ends it
    for lack of room.
    """

    admission: Host
    tenant: str
    priority: int
    model: str = ""
    silent: bool = True
    among: int = 1
    characters: int = 0
    began_s: float = 0.0
    resting: bool = False
    touched_s: float = 0.0
    writing: Callable[[], float | None] | None = None
    slack_s: Callable[[float], float | None] = _unheard
    give_up: Callable[[], None] | None = None

    @property
    def waits(self) -> bool:
        """Whether workers owe it a first sound."""
        return self.silent and not self.resting

    def follow(self, writing: Callable[[], float | None]) -> None:
        """Its text is still being written. `writing`: when some came last; None at its end."""
        self.writing = writing

    def paused_s(self, now: float) -> float:
        """For how long it has waited for text; 0 if it does not."""
        text_s = self.writing() if self.writing is not None else None
        if text_s is None or self.resting:
            return 0.0
        return now - max(text_s, self.touched_s)

    def silence_ends(self) -> None:
        """It has no first sound to wait for any more; safe to call twice."""
        if self.silent:
            self.silent = False
            self.admission.sounded(self)

    def text(self, characters: int) -> None:
        """So much of its text came after the request itself."""
        self.wake()
        self.characters += characters
        self.admission.charge(self.tenant, characters)

    def rest(self) -> None:
        """It waits for text, and the stages have given its slots back; safe to call twice."""
        if not self.resting:
            self.resting = True
            self.admission.rested(self)

    def wake(self) -> None:
        """It goes on, whatever room there is; safe to call twice."""
        self.touched_s = self.admission.clock()
        if self.resting:
            self.resting = False
            self.admission.woke(self)
