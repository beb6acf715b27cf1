"""Gateways in virtual time: their own admission judges every request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from antiphon_bench.plan.calls import Call
from antiphon_bench.plan.kernel import Kernel, Seat, Station
from ttscommon.cluster.admission import AdmissionLimits, Judge, View, forecast
from ttscommon.cluster.admission.shares import Standing
from ttscommon.wire.errors import Overloaded

TENANT: Final = ""


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
        self.edge = Station(kernel, seat.node)
        self.alive = True
        self.born_s = kernel.now
        self._kernel = kernel
        self._setup = setup
        self._limits = AdmissionLimits()
        self._judge = Judge({TENANT: 1.0}, self._limits, setup.ttfp_target_s)

    @property
    def streams(self) -> int:
        return self._judge.shares.total

    def admit(self, call: Call, view: View) -> bool:
        """Whether it may start now; then it holds a place until `end`."""
        now = self._kernel.now
        if not view.talkers or not view.vocoders:
            return False
        if self._setup.predict:
            try:
                self._predict(call, view, now)
            except Overloaded:
                self._judge.refused(TENANT, now)
                return False
        elif self.streams >= self._setup.max_streams:
            return False
        call.alone = not self.streams
        self.hold(call)
        return True

    def _predict(self, call: Call, view: View, now: float) -> None:
        ahead = forecast(view, self._judge.hold_s, self._setup.utilisation)
        most = self._setup.max_streams
        standing, call.predicted_s = self._judge.check(ahead, TENANT, most, now)
        call.alone_s = ahead.alone_s
        if standing is Standing.BORROWED:
            call.priority = min(call.priority, self._limits.borrowed_priority)

    def hold(self, call: Call) -> None:
        """The request is this gateway's from now on."""
        call.gateway, call.admitted_s = self, self._kernel.now
        self._judge.take(TENANT)
        if not call.silent:
            self._judge.silent[TENANT] -= 1

    def spoke(self, call: Call) -> None:
        """Its first sound is here."""
        call.silent = False
        self._judge.silent[TENANT] -= 1
        now = self._kernel.now
        if call.predicted_s and call.alone_s:
            took_s = now - call.admitted_s
            self._judge.learn(took_s, call.predicted_s, call.alone_s, now, alone=call.alone)

    def end(self, call: Call) -> None:
        """It is over, or was refused later."""
        self._judge.shares.give_back(TENANT)
        if call.silent:
            self._judge.silent[TENANT] -= 1
        self._judge.held(self._kernel.now - call.admitted_s)
