"""Gateways in virtual time: their own admission judges every request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from antiphon_bench.plan.calls import Call
from antiphon_bench.plan.kernel import Kernel, Seat, Station
from ttscommon.cluster.admission import AdmissionLimits, Ends, Judge, View, forecast
from ttscommon.cluster.admission.shares import Standing
from ttscommon.wire.errors import Overloaded

TENANT: Final = ""
_LONGEST_RETRY_S: Final = 60.0


@dataclass(frozen=True)
class GatewaySetup:
    """A gateway's settings, by the names that it has them under."""

    ttfp_target_s: float = 0.5
    utilisation: float = 0.85
    max_streams: int = 1000
    first_audio_timeout_s: float = 15.0
    predict: bool = True


class Gateway:
    """One gateway process. All callers share one key, so no share is kept for others."""

    def __init__(self, kernel: Kernel, seat: Seat, setup: GatewaySetup) -> None:
        self.name, self.node, self.home, self.place = seat.name, seat.node, seat.home, seat.place
        self.edge = Station(kernel, seat.node, name=seat.name)
        self.alive = True
        self.born_s = kernel.now
        self._kernel = kernel
        self._setup = setup
        self._limits = AdmissionLimits()
        self._judge = Judge({TENANT: 1.0}, self._limits, setup.ttfp_target_s)
        self._ends = Ends()
        self._running: dict[int, Call] = {}

    @property
    def streams(self) -> int:
        return self._judge.shares.total

    def admit(self, call: Call, view: View) -> Overloaded | None:
        """Why it may not start now; otherwise it holds a place until `end`."""
        try:
            self._judge_it(call, view)
        except Overloaded as refusal:
            return refusal.with_traceback(None)
        call.alone = not self.streams
        self.hold(call)
        return None

    def _judge_it(self, call: Call, view: View) -> None:
        now = self._kernel.now
        if not view.talkers or not view.vocoders:
            raise Overloaded("no worker lives")
        if not self._setup.predict:
            if self.streams >= self._setup.max_streams:
                raise Overloaded("there is no room for another stream now")
            return
        try:
            self._predict(call, view, now)
        except Overloaded as refusal:
            self._judge.refused(TENANT, now)
            self._say_when(refusal, now)
            raise

    def _say_when(self, refusal: Overloaded, now: float) -> None:
        """As gateways do: when a stream will have ended for which no other was told to come."""
        wait_s = self._ends.promise(TENANT, self._running.values(), now)
        if wait_s is not None:
            refusal.retry_after_s = min(max(refusal.retry_after_s, wait_s), _LONGEST_RETRY_S)

    def _predict(self, call: Call, view: View, now: float) -> None:
        ahead = forecast(view, self._judge.hold_s, self._setup.utilisation)
        most = self._setup.max_streams
        standing, call.predicted_s = self._judge.check(ahead, TENANT, most, now)
        call.alone_s = ahead.alone_s
        if standing is Standing.BORROWED:
            call.priority = min(call.priority, self._limits.borrowed_priority)

    def hold(self, call: Call) -> None:
        """The request is this gateway's from now on."""
        call.gateway, call.began_s = self, self._kernel.now
        self._running[call.number] = call
        self._judge.take(TENANT)
        if not call.silent:
            self._judge.silent[TENANT] -= 1

    def spoke(self, call: Call) -> None:
        """Its first sound is here."""
        call.silent = False
        self._judge.silent[TENANT] -= 1
        now = self._kernel.now
        if call.predicted_s and call.alone_s:
            took_s = now - call.began_s
            self._judge.learn(took_s, call.predicted_s, call.alone_s, now, alone=call.alone)

    def end(self, call: Call) -> None:
        """It is over, or was refused later."""
        self._judge.shares.give_back(TENANT)
        if call.silent:
            self._judge.silent[TENANT] -= 1
        held_s = self._kernel.now - call.began_s
        self._judge.held(held_s)
        self._ends.learn(call.characters, held_s)
        del self._running[call.number]
