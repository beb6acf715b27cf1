"""Requests in virtual time, and gateways whose own admission judges every one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from msgspec.structs import replace

from antiphon_bench.plan.costs import GatewaySetup
from antiphon_bench.plan.kernel import Kernel, Node, Station
from antiphon_bench.plan.loads import Wanted
from antiphon_bench.plan.models import NAME
from antiphon_bench.plan.workers import Worker
from antiphon_bench.results import Outcome
from ttscommon.cluster.admission import AdmissionLimits, Ends, Judge, Streams, View
from ttscommon.cluster.admission.capacity import room_of, streams_of
from ttscommon.cluster.admission.judge import Standing
from ttscommon.sound.playback import Headroom, PlaybackAccount
from ttscommon.wire.errors import Overloaded
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


_LIMITS: Final = AdmissionLimits()


class Deployment(Protocol):
    """What gateways know, and what they have done; see fleet.Fleet."""

    def view(self) -> View: ...
    def living(self) -> Iterable[Call]: ...
    def begin(self, call: Call, gateway: Gateway) -> None: ...
    def refuse(self, call: Call, gateway: Gateway, retry_s: float) -> None: ...


class Gateway:
    """One gateway process."""

    def __init__(
        self, kernel: Kernel, name: str, node: Node, setup: GatewaySetup, world: Deployment
    ) -> None:
        self.edge = Station(kernel, node, name=name)
        self._kernel = kernel
        self._setup = setup
        self._world = world
        self._judge = Judge(dict(setup.weights), setup.ttfp_target_s, _LIMITS.loop)
        self.headroom = Headroom()
        self._ends = Ends()
        self._running: dict[int, Call] = {}
        self._waiting: deque[Call] = deque()
        self._looking = False
        self._slack_s: float | None = None

    @property
    def streams(self) -> int:
        return self._judge.shares.total

    @property
    def calls(self) -> Iterable[Call]:
        """Those that have a place here."""
        return self._running.values()

    def ask(self, call: Call) -> None:
        """A request is at the door: it gets a place, or waits a moment for one."""
        streams, behind = self._seen(self._world.view()), len(self._waiting)
        self._waiting.append(call)
        self._let_in()
        if call in self._waiting:
            hold_s = self._judge.hold_s(NAME, streams, behind, self._kernel.now)
            wait_s = min(hold_s, self._setup.max_wait_s)
            self._kernel.after(wait_s, partial(self._refuse, call))

    def _let_in(self) -> None:
        for call in list(self._waiting):
            if call.over or self._objection(call) is None:
                self._waiting.remove(call)
                if not call.over:
                    self.hold(call)
                    call.lengthen(self.headroom)
                    self._world.begin(call, self)

    def _refuse(self, call: Call) -> None:
        if call not in self._waiting:
            return
        self._waiting.remove(call)
        now = self._kernel.now
        wait_s = self._ends.promise(call.key_name, self._running.values(), now, _LIMITS.retry_s)
        self._world.refuse(call, self, max(1.0, wait_s or 0.0))

    def _objection(self, call: Call) -> Overloaded | None:
        """Why it may not start now."""
        view, setup = self._world.view(), self._setup
        if not view.talkers or not view.vocoders:
            return Overloaded("no worker lives")
        if not setup.admission:
            full = self.streams >= setup.max_streams
            return Overloaded("there is no room for another stream now") if full else None
        streams, now = self._seen(view), self._kernel.now
        try:
            standing = self._judge.check(NAME, streams, call.key_name, setup.max_streams, now)
        except Overloaded as refusal:
            return refusal.with_traceback(None)
        if standing is Standing.BORROWED:
            call.lower(_LIMITS.borrowed_priority)
        return None

    def _seen(self, view: View) -> Streams:
        silent = sum(call.silent for call in self._world.living())
        return streams_of(view, silent, self._slack_s, room_of(view, self._setup.utilisation))

    def _look(self) -> None:
        """Move the limit, as long as there are streams."""
        self._looking = bool(self._running)
        if not self._looking:
            return
        now, view = self._kernel.now, self._world.view()
        slacks = (_slack_s(call, now) for call in self._world.living())
        self._slack_s = min((one for one in slacks if one is not None), default=None)
        loop, streams = self._judge.loop(NAME), self._seen(view)
        if streams.most and self._setup.admission:
            loop.look(streams, now)
            if loop.gives_up(streams, now):
                self._give_up()
        self._let_in()
        self._kernel.after(_LIMITS.look_s, self._look)

    def _give_up(self) -> None:
        """End the youngest stream without a sound."""
        for call in reversed(self._running.values()):
            if call.silent:
                self._world.refuse(call, self, 1.0)
                return

    def hold(self, call: Call) -> None:
        """The request is this gateway's from now on."""
        call.gateway, call.began_s = self, self._kernel.now
        self._running[call.number] = call
        self._judge.take(call.key_name, silent=call.silent)
        if call.silent:
            call.among = sum(other.silent for other in self._world.living())
        if not self._looking:
            self._looking = True
            self._kernel.after(_LIMITS.look_s, self._look)

    def spoke(self, call: Call) -> None:
        """Its first sound is here."""
        call.silent = False
        self._judge.silent[call.key_name] -= 1
        self._judge.loop(NAME).sounded(self._kernel.now - call.began_s, call.among)
        self._let_in()

    def end(self, call: Call) -> None:
        """It is over, or was refused later."""
        self._judge.shares.give_back(call.key_name)
        if call.silent:
            self._judge.silent[call.key_name] -= 1
        self._ends.learn(call.characters, self._kernel.now - call.began_s)
        del self._running[call.number]
        self._let_in()


def _slack_s(call: Call, now: float) -> float | None:
    """Playback that its listener has left, where it waits for workers and says something."""
    account = call.account
    if account.first_at_s is None or call.said:
        return None
    if now - account.first_at_s < _LIMITS.loop.heard_s:
        return None
    return account.ends_at_s - now
