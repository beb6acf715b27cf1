"""A whole deployment in virtual time: its clients, and requests from their arrival to their end.

What is between is in `gateways` and `stages`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from functools import partial
from itertools import count

from antiphon_bench.plan.costs import SERVICES, Setup
from antiphon_bench.plan.gateways import Call, Gateway, Heard
from antiphon_bench.plan.kernel import Action, Kernel, Node, Station
from antiphon_bench.plan.loads import OpenLoop, Wanted
from antiphon_bench.plan.models import SAMPLES
from antiphon_bench.plan.stages import TalkerSide, VocoderSide
from antiphon_bench.results import Outcome
from ttscommon.cluster.admission import View
from ttscommon.sound.playback import FIRST_CHUNKS


class Fleet:
    """Processes and what is between them: `run` until every request has ended.

    `calls`: under way, by key. bus: all brokers, which share the work.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, self.costs = setup, setup.curves.costs
        self.kernel, shape = Kernel(), setup.shape
        cores = shape.cores if shape.nodes else math.inf
        self.nodes = [Node(cores) for _ in range(max(1, shape.nodes))]
        self.nodes[0].idle += shape.brokers * self.costs.broker.idle + shape.beside
        self.bus = Station(self.kernel, self.nodes[0], servers=shape.brokers, name="bus")
        self._hops = Station(self.kernel, self.nodes[0], name="hops")
        self.calls: dict[str, Call] = {}
        self.heard: list[Heard] = []
        self.vocoders = VocoderSide(self)
        self.talkers = TalkerSide(self, self.vocoders)
        self.gateways: list[Gateway] = []
        self._numbers, self._named = count(), count()
        self._load = OpenLoop(())
        for kind in SERVICES:
            for place in range(shape.counted()[kind]):
                self.add(kind, place)

    def add(self, kind: str, place: int) -> None:
        """Start a process that serves at once; `place` says on which node."""
        node, name = self.nodes[place % len(self.nodes)], f"{kind}-{place}-{next(self._named)}"
        node.idle += getattr(self.costs, kind).idle
        if kind == "gateway":
            self.gateways.append(Gateway(self, name, node))
        else:
            (self.talkers if kind == "talker" else self.vocoders).add(name, node)

    def run(self, load: OpenLoop, until_s: float) -> list[Heard]:
        """What became of all requests of the load, in order of their ends; those unended by
        `until_s` are errors.
        """
        self._load = load
        for wanted in load.first:
            self._expect(wanted)
        self.kernel.run(until_s)
        for call in list(self.calls.values()):
            self._end(call, "error")
        return self.heard

    def seconds(self, frames: float) -> float:
        return frames / self.costs.speech.frame_rate_hz

    def hop(self, then: Action) -> None:
        """A message goes from one process to another, whose threads wait for a processor."""
        self.kernel.after(self.costs.hop_s * self._hops.stretch(), then)

    def publish(self, share: float, sound_s: float, then: Action) -> None:
        """A message: for a `share` of what a request costs, or of so much sound, which passes
        twice: as codes and as samples.
        """
        cost = self.costs.broker
        work_s = cost.request_s * share + cost.sound_s * sound_s / 2
        self.bus.serve(work_s, partial(self.hop, then))

    def living(self) -> Iterator[Call]:
        """The requests that have a place at a gateway."""
        return (call for gateway in self.gateways for call in gateway.running.values())

    def view(self) -> View:
        """What gateways know of the workers, and of each other."""
        busy = sum(gateway.streams for gateway in self.gateways)
        rate = self.costs.speech.frame_rate_hz
        return View(self.talkers.reports(), self.vocoders.reports(), busy, rate)

    def _expect(self, wanted: Wanted) -> None:
        self.kernel.at(wanted.at_s, partial(self.arrive, wanted))

    def arrive(self, wanted: Wanted) -> None:
        """A client asks one of the gateways, in turn."""
        number = next(self._numbers)
        call = self.calls[str(number)] = Call.of(number, wanted, self.costs.speech)
        gateway = self.gateways[(number + 1) % len(self.gateways)]
        work_s, judged = self.costs.gateway.asked_s, partial(gateway.ask, call)
        self.hop(lambda: gateway.edge.serve(work_s, judged))

    def refuse(self, call: Call, gateway: Gateway, retry_s: float) -> None:
        """It has no place, or is given up for those that sound."""
        edge = self.costs.gateway
        gateway.edge.serve(edge.refusal_s - edge.asked_s, lambda: None)
        self.talkers.give_up(call)
        self.vocoders.give_up(call)
        self._end(call, "refused", retry_s)

    def begin(self, call: Call, gateway: Gateway) -> None:
        """It has a place, and goes on."""
        edge = self.costs.gateway
        self.kernel.after(self.setup.gateway.first_audio_timeout_s, partial(self._give_up, call))
        published = partial(self.publish, 0.5, 0.0, partial(self.talkers.submit, call))
        if (read_s := edge.request_s / 2 - edge.asked_s) > 0.0:
            gateway.edge.serve(read_s, published)
        else:
            published()

    def reach(self, call: Call, samples: int) -> None:
        """Sound at the gateway; 0: there is no more."""
        gateway, edge = call.gateway, self.costs.gateway
        call.said = call.said or not samples
        if gateway is not None and not call.over:
            work_s = edge.sound_s * self.seconds(samples / SAMPLES)
            work_s += edge.request_s / 2 if call.said else 0.0
            gateway.edge.serve(work_s, lambda: self._pass_on(call, gateway, samples))

    def _pass_on(self, call: Call, gateway: Gateway, samples: int) -> None:
        if call.over:
            return
        if samples:
            if call.silent:
                gateway.spoke(call)
            self.hop(partial(self.play, call, gateway, samples))
        if call.said:
            self.hop(lambda: self._end(call, "ok"))

    def play(self, call: Call, gateway: Gateway, samples: int) -> None:
        """Sound comes to its listener."""
        account = call.account
        account.feed(samples, self.kernel.now)
        if account.chunks == FIRST_CHUNKS and account.min_slack_s is not None:
            gateway.headroom.add(
                call.request.headroom_s, account.first_chunk_s, account.min_slack_s
            )
        if account.chunks == 1:
            self.publish(0.0, 0.0, lambda: self._tell_playback(call))

    def _tell_playback(self, call: Call) -> None:
        first_s = call.account.first_at_s
        for worker in (call.talker, call.vocoder):
            if worker is not None and worker.alive and not call.over and first_s is not None:
                worker.playback(call.key, first_s)

    def _give_up(self, call: Call) -> None:
        if not call.over and call.silent and self.talkers.withdraw(call):
            self._end(call, "refused", 1.0)

    def _end(self, call: Call, outcome: Outcome, retry_s: float = 0.0) -> None:
        """`retry_s`: when a client who was refused is told to ask again."""
        if call.over:
            return
        call.over = True
        del self.calls[call.key]
        if call.gateway is not None:
            call.gateway.end(call)
        account, now = call.account, self.kernel.now
        self.heard.append(Heard(call.wanted.at_s, outcome, copy(account)))  # it may get more
        heard_s = max(now, account.ends_at_s) if account.started else now
        if (wanted := self._load.next(call.wanted, heard_s, outcome, retry_s)) is not None:
            self._expect(wanted)
