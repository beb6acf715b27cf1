"""Sound on its way from the bus through a gateway to its listener, and what a client costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from antiphon_bench.plan.calls import Call, Host
from antiphon_bench.plan.ground import Ground
from antiphon_bench.plan.kernel import Station
from antiphon_bench.plan.models import SAMPLES
from ttscommon.sound.headroom import FIRST_CHUNKS


class ClientSide:
    """All clients. They take some of the first machine where a shape says what."""

    def __init__(self, ground: Ground, end: Callable[[Call], object]) -> None:
        """`end`: a client has all of its request."""
        self._ground, self._end = ground, end
        self._costs = ground.setup.shape.listeners
        self._station = Station(ground.kernel, ground.nodes[0], servers=64)

    def ask(self) -> None:
        """A client asks, and may be refused."""
        if self._costs is not None:
            self._station.serve(self._costs.refusal_s, _nothing)

    def admitted(self) -> None:
        """Its request goes on: what that costs beyond asking."""
        if self._costs is not None:
            self._station.serve(self._costs.request_s - self._costs.refusal_s, _nothing)

    def reach(self, call: Call, samples: int, *, resumed: bool = False) -> None:
        """Sound at the gateway, or at the next one for a client whose own has died."""
        gateway = call.gateway
        call.said = call.said or not (samples or resumed)
        call.held += samples
        if gateway is None or not gateway.alive or call.over:
            return
        samples, call.held = call.held, 0
        edge = self._ground.costs.gateway
        work_s = edge.sound_s * self._ground.seconds(samples / SAMPLES)
        work_s += edge.request_s / 2 if call.said else 0.0
        gateway.edge.serve(work_s, lambda: self._pass_on(call, gateway, samples))

    def _pass_on(self, call: Call, gateway: Host, samples: int) -> None:
        if call.over:
            return
        if not gateway.alive or call.gateway is not gateway:
            call.held += samples
            self.reach(call, 0, resumed=True)
            return
        if samples:
            if call.silent:
                gateway.spoke(call)
            self._ground.bus.hop(partial(self._play, call, samples))
        if call.said:
            self._ground.bus.hop(lambda: self._end(call))

    def _play(self, call: Call, samples: int) -> None:
        account = call.account
        first = not account.started
        account.feed(samples, self._ground.kernel.now)
        if self._costs is not None:
            work_s = self._costs.sound_s * self._ground.seconds(samples / SAMPLES)
            self._station.serve(work_s, _nothing)
        if account.chunks == FIRST_CHUNKS and call.gateway and account.min_slack_s is not None:
            call.gateway.headroom.add(call.request.headroom_s, account.min_slack_s)
        if first:
            self._ground.bus.publish(0, 0.0, 0.0, lambda: self._tell_playback(call))

    def _tell_playback(self, call: Call) -> None:
        for worker in (call.talker, call.vocoder):
            if worker is not None and worker.alive and not call.over:
                worker.playback(call.key, self._ground.playback_s(call))


def _nothing() -> None:
    """There is nothing to do."""
