"""A whole deployment in virtual time: its clients, and requests from their arrival to their end.

What is between is in `stages`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from antiphon_bench.plan.costs import Edge, Setup
from antiphon_bench.plan.gateways import Call, Gateway, Heard, Host
from antiphon_bench.plan.kernel import Station
from antiphon_bench.plan.loads import OpenLoop, Wanted
from antiphon_bench.plan.models import SAMPLES
from antiphon_bench.plan.stages import Ground, TalkerSide, VocoderSide
from antiphon_bench.results import Outcome
from ttscommon.cluster.admission import View
from ttscommon.sound.playback import FIRST_CHUNKS, PlaybackAccount


class ClientSide:
    """All clients. They take some of the first machine where a shape says what."""

    def __init__(self, ground: Ground, end: Callable[[Call], object]) -> None:
        """`end`: a client has all of its request."""
        self._ground, self._end = ground, end
        self._costs = ground.setup.shape.listeners or Edge(0.0, 0.0)
        self._station = Station(ground.kernel, ground.nodes[0], servers=64)

    def ask(self) -> None:
        """A client asks, and may be refused."""
        self._work(self._costs.refusal_s)

    def admitted(self) -> None:
        """Its request goes on: what that costs beyond asking."""
        self._work(self._costs.request_s - self._costs.refusal_s)

    def _work(self, seconds: float) -> None:
        if seconds:
            self._station.serve(seconds, lambda: None)

    def reach(self, call: Call, samples: int) -> None:
        """Sound at the gateway; 0: there is no more."""
        gateway = call.gateway
        call.said = call.said or not samples
        if gateway is None or call.over:
            return
        edge = self._ground.costs.gateway
        work_s = edge.sound_s * self._ground.seconds(samples / SAMPLES)
        work_s += edge.request_s / 2 if call.said else 0.0
        gateway.edge.serve(work_s, lambda: self._pass_on(call, gateway, samples))

    def _pass_on(self, call: Call, gateway: Host, samples: int) -> None:
        if call.over:
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
        self._work(self._costs.sound_s * self._ground.seconds(samples / SAMPLES))
        if account.chunks == FIRST_CHUNKS and call.gateway and account.min_slack_s is not None:
            call.gateway.headroom.add(call.request.headroom_s, account.min_slack_s)
        if first:
            self._ground.bus.publish(0.0, 0.0, lambda: self._tell_playback(call))

    def _tell_playback(self, call: Call) -> None:
        first_s = call.account.first_at_s
        for worker in (call.talker, call.vocoder):
            if worker is not None and worker.alive and not call.over and first_s is not None:
                worker.playback(call.key, first_s)


class Fleet(Ground):
    """Processes and what is between them. `run` until every request has ended."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.heard: list[Heard] = []
        self._clients = ClientSide(self, lambda call: self._end(call, "ok"))
        self.vocoders = VocoderSide(self, self._clients.reach)
        self.talkers = TalkerSide(self, self.vocoders)
        self.gateways: list[Gateway] = []
        self._numbers, self._named = count(), count()
        self._load = OpenLoop(())
        self._turn = 0
        for kind in ("gateway", "talker", "vocoder"):
            for place in range(setup.shape.counted()[kind]):
                self.add(kind, place)

    def add(self, kind: str, place: int) -> None:
        """Start a process that serves at once; `place` says on which node."""
        node, name = self.nodes[place % len(self.nodes)], f"{kind}-{place}-{next(self._named)}"
        node.idle += getattr(self.costs, kind).idle
        if kind == "gateway":
            self.gateways.append(Gateway(self.kernel, name, node, self.setup.gateway, self))
        elif kind == "talker":
            self.talkers.add(name, node)
        else:
            self.vocoders.add(name, node)

    def run(self, load: OpenLoop, until_s: float) -> list[Heard]:
        """What became of all requests of the load, in order of their ends; those unended by
        `until_s` are errors.
        """
        self._load = load
        self._pull(iter(sorted(load.first(), key=lambda wanted: wanted.at_s)))
        self.kernel.run(until_s)
        for call in list(self.calls.values()):
            self._end(call, "error")
        return self.heard

    # the beginning of a request

    def _pull(self, coming: Iterator[Wanted]) -> None:
        """Expect the next of those known beforehand: an hour of them at once would fill memory."""
        if (one := next(coming, None)) is None:
            return
        self._expect(one)
        self.kernel.at(one.at_s, lambda: self._pull(coming))

    def _expect(self, wanted: Wanted) -> None:
        self.kernel.at(wanted.at_s, partial(self._arrive, wanted))

    def _arrive(self, wanted: Wanted) -> None:
        """A client asks one of the gateways, in turn."""
        speech = self.costs.speech
        account = PlaybackAccount(round(speech.frame_rate_hz * SAMPLES))
        call = Call(next(self._numbers), wanted, speech.frames(wanted.characters), account)
        self.calls[call.key] = call
        self._turn += 1
        gateway = self.gateways[self._turn % len(self.gateways)]
        self._clients.ask()
        work_s, judged = self.costs.gateway.asked_s, partial(self._admit, call, gateway)
        self.bus.hop(lambda: gateway.edge.serve(work_s, judged))

    def _admit(self, call: Call, gateway: Gateway) -> None:
        if not call.over:
            gateway.ask(call)

    def refuse(self, call: Call, gateway: Gateway, retry_s: float) -> None:
        """It has no place, or is given up for those that sound."""
        edge = self.costs.gateway
        gateway.edge.serve(edge.refusal_s - edge.asked_s, lambda: None)
        self.talkers.give_up(call)
        self.vocoders.give_up(call)
        self._end(call, "refused", retry_s)

    def begin(self, call: Call, gateway: Gateway) -> None:
        """It has a place."""
        self._clients.admitted()
        self.kernel.after(self.setup.gateway.first_audio_timeout_s, partial(self._give_up, call))
        published = partial(self.bus.publish, 0.5, 0.0, partial(self.talkers.submit, call))
        edge = self.costs.gateway
        if (read_s := edge.request_s / 2 - edge.asked_s) > 0.0:
            gateway.edge.serve(read_s, published)
        else:
            published()

    def living(self) -> Iterator[Call]:
        """The requests that have a place at a gateway."""
        return (call for g in self.gateways for call in g.calls)

    def view(self) -> View:
        """What gateways know of the workers, and of each other."""
        busy = sum(gateway.streams for gateway in self.gateways)
        rate = self.costs.speech.frame_rate_hz
        return View(self.talkers.reports(), self.vocoders.reports(), busy, rate)

    # its end

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
        self.heard.append(Heard.of(call, outcome))
        account, now = call.account, self.kernel.now
        heard_s = max(now, account.ends_at_s) if account.started else now
        if (wanted := self._load.next(call.wanted, heard_s, outcome, retry_s)) is not None:
            self._expect(wanted)
