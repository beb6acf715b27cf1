"""Requests in virtual time: who makes them, who has their jobs, and what listeners hear."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from msgspec.structs import replace

from antiphon_bench.plan.kernel import Station
from antiphon_bench.plan.models import NAME
from antiphon_bench.plan.workers import TalkerWorker, VocoderWorker, Worker
from ttscommon.sound.headroom import Headroom
from ttscommon.sound.playback import PlaybackAccount
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Replica

Outcome = Literal["ok", "refused", "error"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("ok", "refused", "error")


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
    when it began, itself among them. `key_name`: whose it is.
    """

    number: int
    at_s: float
    frames: int
    account: PlaybackAccount
    user: int = -1
    characters: int = 0
    key_name: str = ""
    request: SpeechRequest = field(init=False)
    gateway: Host | None = None
    talker: TalkerWorker | None = None
    vocoder: VocoderWorker | None = None
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

    def lengthen(self, headroom: Headroom) -> None:
        """Its first chunk is to have more."""
        self.request = replace(self.request, headroom_s=headroom.seconds)

    def lower(self, priority: int) -> None:
        """It comes behind others."""
        self.priority = min(self.priority, priority)
        self.request = replace(self.request, priority=self.priority)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request to come: when, of how many characters, whose."""

    at_s: float
    characters: int
    key_name: str = ""


class Load(Protocol):
    """The source of requests. `first`: what is known beforehand, in order. `next`: what a user asks
    next, after one of so many characters that was heard to its end at `heard_s`, failed then, or
    was refused, in which case its gateway said to come again after `retry_s`.
    """

    def first(self) -> Iterable[tuple[Wanted, int]]: ...
    def next(
        self, user: int, characters: int, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None: ...


@dataclass(frozen=True)
class OpenLoop:
    """Requests come at their times, whatever became of those before."""

    wanted: Sequence[Wanted]

    def first(self) -> Iterator[tuple[Wanted, int]]:
        return ((one, -1) for one in self.wanted)

    def next(
        self, user: int, characters: int, heard_s: float, outcome: Outcome, retry_s: float
    ) -> None:
        del user, characters, heard_s, outcome, retry_s


class ClosedLoop:
    """Users who each ask anew when they have heard the last text to its end."""

    def __init__(
        self,
        users: int,
        characters: Iterator[int],
        until_s: float,
        spread_s: float,
        retry_s: float | None = None,
    ) -> None:
        """`spread_s`: over which they begin. `retry_s`: until one who was refused asks again; None:
        as its gateway says.
        """
        self._users, self._characters = users, characters
        self._until_s, self._spread_s, self._retry_s = until_s, spread_s, retry_s

    def first(self) -> Iterator[tuple[Wanted, int]]:
        for user in range(self._users):
            yield Wanted(user * self._spread_s / self._users, next(self._characters)), user

    def next(
        self, user: int, characters: int, heard_s: float, outcome: Outcome, retry_s: float
    ) -> Wanted | None:
        del user, characters
        wait_s = retry_s if self._retry_s is None else self._retry_s
        at_s = heard_s + (0.0 if outcome == "ok" else wait_s)
        return Wanted(at_s, next(self._characters)) if at_s < self._until_s else None


class Heard:
    """What became of every request, in order of their ends: columns, a few bytes each."""

    def __init__(self) -> None:
        self.at_s = array("d")
        self.outcomes = array("b")
        self.ttfp_s = array("d")
        self.chunks = array("i")
        self.viable_chunks = array("i")
        self.underruns = array("i")
        self.underrun_s = array("d")
        self.longest_s = array("d")
        self.sound_s = array("d")

    def __len__(self) -> int:
        return len(self.at_s)

    def add(self, call: Call, outcome: Outcome) -> None:
        account = call.account
        first_s = account.first_at_s
        self.at_s.append(call.at_s)
        self.outcomes.append(OUTCOMES.index(outcome))
        self.ttfp_s.append(-1.0 if first_s is None else first_s - call.at_s)
        self.chunks.append(account.chunks)
        self.viable_chunks.append(account.viable_chunks)
        self.underruns.append(account.underruns)
        self.underrun_s.append(account.underrun_s)
        self.longest_s.append(account.longest_underrun_s)
        self.sound_s.append(account.duration_s)


class Pool:
    """One stage's workers. A job goes to the one with the smallest share of its slots taken."""

    def __init__(self, begin: Callable[[Any, Call], object]) -> None:
        """`begin`: a worker has the job, and a slot for it."""
        self.workers: list[Worker] = []
        self.waiting: deque[Call] = deque()
        self.most_waiting = 0
        self._begin = begin

    def __iter__(self) -> Iterator[Worker]:
        """Those that live."""
        return (worker for worker in self.workers if worker.alive)

    def add(self, worker: Worker) -> None:
        self.workers.append(worker)
        self.assign()

    def submit(self, call: Call, *, first: bool = False) -> None:
        """Queue a job, in front of the others if it was begun before."""
        if first:
            self.waiting.appendleft(call)
        else:
            self.waiting.append(call)
        self.assign()

    def release(self, worker: Worker) -> None:
        """A job of the worker's has ended."""
        worker.used -= 1
        self.assign()

    def withdraw(self, call: Call) -> bool:
        """Take a job out of the queue; False if a worker has it."""
        if call not in self.waiting:
            return False
        self.waiting.remove(call)
        return True

    def reports(self) -> tuple[Replica, ...]:
        """What gateways know of them."""
        queued = len(self.waiting)
        return tuple(worker.report(queued) for worker in self)

    def assign(self) -> None:
        """Give out what waits, as long as there is a slot."""
        while self.waiting:
            free = [worker for worker in self if worker.free > 0]
            if not free:
                self.most_waiting = max(self.most_waiting, len(self.waiting))
                return
            worker = min(free, key=lambda one: one.load)
            worker.used += 1
            self._begin(worker, self.waiting.popleft())
