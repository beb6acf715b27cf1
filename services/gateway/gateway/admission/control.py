"""Control of the limits, by what a gateway sees of its own streams and hears of others'."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.admission.peers import LoopReport, Peers
from ttscommon.cluster.admission import AdmissionLimits, Judge, Streams
from ttscommon.cluster.admission.capacity import Room, View, room_of, streams_of
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.wire.replicas import Replica


@dataclass(frozen=True)
class Applicant:
    """A request that asks to be admitted. `resumed`: it was admitted before, here or at another
    gateway. `max_wait_s`: how long its client would wait for room, where that is longer than every
    request waits. `offline`: see OfflineStreams.
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
    """What the live replicas can take; see Catalogue. own, offline: streams here, by model. died_s:
    when a worker of a model was last found dead.
    """

    own: Counter[str]
    offline: Counter[str]
    died_s: dict[str, float]

    def served(self) -> Sequence[str]: ...

    def capacity(self, model: str) -> View: ...

    def adopt(self, model: str) -> None: ...

    async def all_answer(self, model: str) -> bool: ...


class GrantKeeper(Protocol):
    """What gave a grant and follows its stream; see Admission."""

    def clock(self) -> float: ...
    def sounded(self, grant: Grant) -> None: ...
    def charge(self, tenant: str, characters: int) -> None: ...
    def rested(self, grant: Grant) -> None: ...
    def woke(self, grant: Grant) -> None: ...


@dataclass(eq=False)
class Grant:
    """A place for one request. `priority` is what the stages are to give it.

    among: silent streams of the model when it began, itself among them. slack_s: the playback that
    its listener has left at a moment, None where that says nothing of the workers. give_up: ends it
    for lack of room.
    """

    admission: GrantKeeper
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
    slack_s: Callable[[float], float | None] = lambda now: None
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

    def add_text(self, characters: int) -> None:
        """More of its text came, after the request itself."""
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


class AdmissionControl:
    """Moves one gateway's limits.

    `running`: its streams; resting ones count for nothing. stop_jobs: makes the offline streams of
    a model give way, and returns whether there were any. gives_up: whether a stream may be ended so
    that others do not run dry.
    """

    def __init__(
        self,
        judge: Judge,
        capacity: Capacity,
        peers: Peers,
        limits: AdmissionLimits,
        utilisation: float,
        metrics: GatewayMetrics,
        *,
        gives_up: bool = True,
    ) -> None:
        self.running: dict[int, Grant] = {}
        self.stop_jobs: Callable[[str], bool] = lambda model: False
        self._judge = judge
        self._capacity = capacity
        self._peers = peers
        self._limits = limits
        self._utilisation = utilisation
        self._metrics = metrics
        self._gives_up = gives_up
        self._slack_s: dict[str, float] = {}
        self._rooms: dict[str, tuple[Sequence[Sequence[Replica]], Room]] = {}
        self._reported_s = -math.inf

    def held(self, tenant: str) -> int:
        """A tenant's streams here."""
        return sum(grant.tenant == tenant for grant in self.running.values())

    def streams(self, model: str) -> Streams:
        """The streams of a model at all gateways."""
        slacks = [self._slack_s.get(model), self._peers.slack_s(model)]
        silent = self._silent(model) + self._peers.silent(model)
        slack_s = min((one for one in slacks if one is not None), default=None)
        view = self._capacity.capacity(model)
        return streams_of(view, silent, slack_s, self._room(model, view))

    def _room(self, model: str, view: View) -> Room:
        """Remembered while the replicas are the same: it is asked for many times a request."""
        known = self._rooms.get(model)
        if known is None or known[0] != view.stages:
            known = self._rooms[model] = view.stages, room_of(view, self._utilisation)
        return known[1]

    def look(self, now: float) -> list[str]:
        """Move every loop; returns the models of which a stream is to be given up."""
        self._slack_s = _least(self.running.values(), now)
        dry = []
        for model, loop in self._judge.loops.items():
            streams = self.streams(model)
            if not streams.most:
                continue  # without workers there is nothing to learn
            loop.look(streams, now)
            self._show(model, streams, loop.limit)
            if loop.gives_up(streams, now) and not self.stop_jobs(model) and self._gives_up:
                dry.append(model)
        return dry

    def is_short(self, model: str) -> bool:
        """Whether a listener has so little left that the limit falls."""
        slack_s = self.streams(model).slack_s
        return slack_s is not None and slack_s < self._limits.loop.low_s

    def report(self) -> dict[str, LoopReport]:
        """What the other gateways are to know of this one's streams, by model."""
        return {
            model: LoopReport(self._silent(model), self._slack_s.get(model), loop.limit)
            for model, loop in self._judge.loops.items()
        }

    def hear(self, reports: dict[str, LoopReport]) -> None:
        """A gateway that has just started begins with the limits that others have found."""
        for model, report in reports.items():
            loop = self._judge.loop(model)
            loop.limit = loop.limit or report.limit

    def has_news(self, now: float) -> bool:
        """Whether to tell the others what listeners have left: every `tell_s` at most."""
        due = bool(self._slack_s) and now - self._reported_s >= self._limits.tell_s
        if due:
            self._reported_s = now
        return due

    def hold_s(self, model: str, waiting: int, now: float) -> float:
        """How long a request that does not ask to wait is held, behind so many that wait: at least
        until a stream that is about to rest does.
        """
        limits = self._limits
        written = (one for one in self.running.values() if one.writing is not None)
        paused_s = max((one.paused_s(now) for one in written), default=0.0)
        rests_s = limits.rest_s - paused_s + limits.look_s if paused_s > limits.pause_s else 0.0
        if not self._gives_up:
            return max(rests_s, limits.loop.hold_s)
        return max(rests_s, self._judge.hold_s(model, self.streams(model), waiting, now))

    def _silent(self, model: str) -> int:
        return sum(one.waits and one.model == model for one in self.running.values())

    async def relieve(self, model: str) -> None:
        """Give up a stream, so that others do not run dry, unless a worker does not answer: it may
        be dying of that stream, and no gateway knows of it yet.
        """
        if await self._capacity.all_answer(model):
            self.give_up(model)

    def give_up(self, model: str) -> None:
        """End the youngest silent stream that no worker has died with: what kills its workers would
        be asked for again as a new request, of which no lease says what it has done.
        """
        died_s = self._capacity.died_s.get(model, -math.inf)
        for grant in reversed(self.running.values()):
            innocent = grant.waits and grant.began_s > died_s
            if innocent and grant.model == model and grant.give_up is not None:
                grant.give_up()
                return

    def _show(self, model: str, streams: Streams, limit: float) -> None:
        metrics = self._metrics
        metrics.limit.labels(model).set(int(limit))
        metrics.silent.labels(model).set(streams.silent)
        slack_s = math.nan if streams.slack_s is None else streams.slack_s
        metrics.least_slack.labels(model).set(slack_s)


def _least(grants: Iterable[Grant], now: float) -> dict[str, float]:
    """The least playback that a listener has left, by model."""
    least: dict[str, float] = {}
    for grant in grants:
        slack_s = grant.slack_s(now)
        if slack_s is not None and slack_s < least.get(grant.model, math.inf):
            least[grant.model] = slack_s
    return least
