"""Requests in virtual time: who has their jobs, and what listeners hear."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from antiphon_bench.plan.kernel import Station
from antiphon_bench.plan.loads import Wanted
from antiphon_bench.plan.models import NAME
from antiphon_bench.plan.workers import Worker
from antiphon_bench.results import Outcome
from ttscommon.sound.headroom import Headroom
from ttscommon.sound.playback import PlaybackAccount
from ttscommon.wire.messages import SpeechRequest


class Host(Protocol):
    """The gateway of a request; see gateways.Gateway."""

    edge: Station
    headroom: Headroom

    def spoke(self, call: Call) -> None: ...
    def end(self, call: Call) -> None: ...


@dataclass(eq=False, slots=True)
class Call:
    """One request. `frames`: of its text. `asked`: the vocoders' job is queued.

    committed: frames in the codec log; `whole`: they are all there. fed: frames that its vocoder
    has been told of, -1 before it is open. `said`: no more sound comes. `among`: silent requests
    when it began, itself among them.
    """

    number: int
    wanted: Wanted
    frames: int
    account: PlaybackAccount
    request: SpeechRequest = field(init=False)
    gateway: Host | None = None
    talker: Worker[Any] | None = None
    vocoder: Worker[Any] | None = None
    among: int = 0
    silent: bool = True
    began_s: float = 0.0
    asked: bool = False
    committed: int = 0
    whole: bool = False
    fed: int = 0
    finishing: bool = False
    said: bool = False
    over: bool = False
    priority: int = 5

    def __post_init__(self) -> None:
        self.request = SpeechRequest(str(self.number), NAME, "", "", priority=self.priority)

    @property
    def key(self) -> str:
        return self.request.request_id

    @property
    def key_name(self) -> str:
        """Whose it is."""
        return self.wanted.key_name

    @property
    def characters(self) -> int:
        return self.wanted.characters

    def lengthen(self, headroom: Headroom) -> None:
        """Its first chunk is to have more."""
        self.request = replace(self.request, headroom_s=headroom.seconds)

    def lower(self, priority: int) -> None:
        """It comes behind others."""
        self.priority = min(self.priority, priority)
        self.request = replace(self.request, priority=self.priority)


class Heard(NamedTuple):
    """What became of a request. ttfp_s: None where nothing was heard."""

    at_s: float
    outcome: Outcome
    ttfp_s: float | None
    viable: bool
    underruns: int
    longest_s: float
    sound_s: float

    @classmethod
    def of(cls, call: Call, outcome: Outcome) -> Heard:
        account, at_s = call.account, call.wanted.at_s
        first_s = account.first_at_s
        return cls(
            at_s,
            outcome,
            None if first_s is None else first_s - at_s,
            account.viable,
            account.underruns,
            account.longest_underrun_s,
            account.duration_s,
        )
