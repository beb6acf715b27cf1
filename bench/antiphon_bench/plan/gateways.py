"""Requests in virtual time, and gateways whose own admission judges every one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from antiphon_bench.plan.costs import Costs, Setup, Speech
from antiphon_bench.plan.kernel import Action, Kernel, Node, Station
from antiphon_bench.plan.loads import Wanted
from antiphon_bench.plan.models import NAME, SAMPLES
from antiphon_bench.plan.workers import Worker
from antiphon_bench.results import Outcome
from ttscommon.cluster.admission import AdmissionLimits, Ends, Judge, Streams, View
from ttscommon.cluster.admission.capacity import room_of, streams_of
from ttscommon.cluster.admission.judge import Standing
from ttscommon.sound.playback import Headroom, PlaybackAccount
from ttscommon.wire.errors import Overloaded
from ttscommon.wire.messages import SpeechRequest

_LIMITS: Final = AdmissionLimits()


@dataclass(eq=False, slots=True)
class Call:
    """One request. `frames`: of its text. `asked`: the vocoders' job is queued.

    committed: frames in the codec log; `whole`: they are all there. fed: frames that its vocoder
    has been told of, -1 before it is open. `said`: no more sound comes. `among`: silent requests
    when it began, itself among them.
    """

    wanted: Wanted
    frames: int
    account: PlaybackAccount
    request: SpeechRequest
    gateway: Gateway | None = None
    talker: Worker | None = None
    vocoder: Worker | None = None
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

    @classmethod
    def of(cls, number: int, wanted: Wanted, speech: Speech) -> Call:
        account = PlaybackAccount(round(speech.frame_rate_hz * SAMPLES))
        request = SpeechRequest(str(number), NAME, "", "")
        return cls(wanted, speech.frames(wanted.characters), account, request)

    @property
    def key(self) -> str:
        return self.request.request_id

    @property
    def characters(self) -> int:
        return self.wanted.characters

    def slack_s(self, now: float) -> float | None:
        """Playback that its listener has left, where it waits for workers and says something."""
        first_s = self.account.first_at_s
        if first_s is None or self.said or now - first_s < _LIMITS.loop.heard_s:
            return None
        return self.account.ends_at_s - now


class Heard(NamedTuple):
    """What became of a request, and of its sound."""

    at_s: float
    outcome: Outcome
    account: PlaybackAccount

    @property
    def ttfp_s(self) -> float | None:
        """None where nothing was heard."""
        first_s = self.account.first_at_s
        return None if first_s is None else first_s - self.at_s


class World(Protocol):
    """What parts of a deployment know of each other; see fleet.Fleet."""

    setup: Setup
    costs: Costs
    kernel: Kernel
    calls: dict[str, Call]

    def seconds(self, frames: float) -> float: ...
    def publish(self, share: float, sound_s: float, then: Action) -> None: ...
    def view(self) -> View: ...
    def living(self) -> Iterable[Call]: ...
    def begin(self, call: Call, gateway: Gateway) -> None: ...
    def refuse(self, call: Call, gateway: Gateway, retry_s: float) -> None: ...
    def reach(self, call: Call, samples: int) -> None: ...


class Gateway:
    """One gateway process."""

    def __init__(self, fleet: World, name: str, node: Node) -> None:
        self.edge = Station(fleet.kernel, node, name=name)
        self.headroom = Headroom()
        self.running: dict[str, Call] = {}
        self._fleet, self._kernel, self._settings = fleet, fleet.kernel, fleet.setup.gateway
        self._judge = Judge(dict(fleet.setup.weights), self._settings.ttfp_target_s, _LIMITS.loop)
        self._ends = Ends()
        self._waiting: deque[Call] = deque()
        self._looking = False
        self._slack_s: float | None = None

    @property
    def streams(self) -> int:
        return self._judge.shares.total

    def ask(self, call: Call) -> None:
        """A request is at the door: it gets a place, or waits a moment for one."""
        if call.over:
            return
        streams, behind = self._seen(self._fleet.view()), len(self._waiting)
        self._waiting.append(call)
        self._let_in()
        if call in self._waiting:
            hold_s = self._judge.hold_s(NAME, streams, behind, self._kernel.now)
            wait_s = min(hold_s, self._settings.max_wait_s)
            self._kernel.after(wait_s, partial(self._refuse, call))

    def _let_in(self) -> None:
        for call in list(self._waiting):
            if call.over or self._objection(call) is None:
                self._waiting.remove(call)
                if not call.over:
                    self._hold(call)
                    self._fleet.begin(call, self)

    def _refuse(self, call: Call) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
            ask = (call.wanted.key_name, self.running.values(), self._kernel.now, _LIMITS.retry_s)
            self._fleet.refuse(call, self, max(1.0, self._ends.promise(*ask) or 0.0))

    def _objection(self, call: Call) -> Overloaded | None:
        """Why it may not start now."""
        view, settings, key = self._fleet.view(), self._settings, call.wanted.key_name
        if not view.talkers or not view.vocoders:
            return Overloaded("no worker lives")
        if settings.admission == "off":
            full = self.streams >= settings.max_streams
            return Overloaded("there is no room for another stream now") if full else None
        streams, now = self._seen(view), self._kernel.now
        try:
            standing = self._judge.check(NAME, streams, key, settings.max_streams, now)
        except Overloaded as refusal:
            return refusal.with_traceback(None)
        if standing is Standing.BORROWED:
            priority = min(call.request.priority, _LIMITS.borrowed_priority)
            call.request = replace(call.request, priority=priority)
        return None

    def _seen(self, view: View) -> Streams:
        silent = sum(call.silent for call in self._fleet.living())
        return streams_of(view, silent, self._slack_s, room_of(view, self._settings.utilisation))

    def _look(self) -> None:
        """Move the limit, as long as there are streams; give up the youngest without a sound where
        others would run dry.
        """
        self._looking = bool(self.running)
        if not self._looking:
            return
        now, view = self._kernel.now, self._fleet.view()
        slacks = [call.slack_s(now) for call in self._fleet.living()]
        self._slack_s = min((one for one in slacks if one is not None), default=None)
        loop, streams = self._judge.loop(NAME), self._seen(view)
        if streams.most and self._settings.admission == "on":
            loop.look(streams, now)
            if loop.gives_up(streams, now):
                silent = (call for call in reversed(self.running.values()) if call.silent)
                if (youngest := next(silent, None)) is not None:
                    self._fleet.refuse(youngest, self, 1.0)
        self._let_in()
        self._kernel.after(_LIMITS.look_s, self._look)

    def _hold(self, call: Call) -> None:
        """The request is this gateway's from now on; its first chunk has what others lacked."""
        call.gateway, call.began_s = self, self._kernel.now
        call.request = replace(call.request, headroom_s=self.headroom.seconds)
        self.running[call.key] = call
        self._judge.take(call.wanted.key_name)
        call.among = sum(other.silent for other in self._fleet.living())
        if not self._looking:
            self._looking = True
            self._kernel.after(_LIMITS.look_s, self._look)

    def spoke(self, call: Call) -> None:
        """Its first sound is here."""
        call.silent = False
        self._judge.silent[call.wanted.key_name] -= 1
        self._judge.loop(NAME).sounded(self._kernel.now - call.began_s, call.among)
        self._let_in()

    def end(self, call: Call) -> None:
        """It is over, or was refused later."""
        self._judge.shares.give_back(call.wanted.key_name)
        self._judge.silent[call.wanted.key_name] -= call.silent
        self._ends.learn(call.characters, self._kernel.now - call.began_s)
        del self.running[call.key]
        self._let_in()
