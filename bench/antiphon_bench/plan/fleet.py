"""A whole deployment in virtual time: its processes, and requests from their arrival to their end.

What is between is in `stages`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count

from antiphon_bench.plan.calls import Call, Heard, Load, Outcome, Wanted
from antiphon_bench.plan.costs import Edge
from antiphon_bench.plan.gateways import Gateway, World
from antiphon_bench.plan.kernel import Seat
from antiphon_bench.plan.models import SAMPLES
from antiphon_bench.plan.shapes import Setup
from antiphon_bench.plan.stages import ClientSide, Ground, TalkerSide, VocoderSide
from antiphon_bench.plan.workers import TalkerWorker, VocoderWorker, Worker
from ttscommon.cluster.admission import View
from ttscommon.sound.playback import PlaybackAccount


class Fleet:
    """Processes and what is between them. `run` until every request has ended."""

    def __init__(self, setup: Setup) -> None:
        self.setup, ground = setup, Ground(setup)
        self._ground, self._costs = ground, ground.costs
        self.kernel, self.nodes = ground.kernel, ground.nodes
        self.bus, self.calls = ground.bus, ground.calls
        self.heard = Heard()
        self._clients = ClientSide(ground, lambda call: self._end(call, "ok"))
        self._vocoding = VocoderSide(ground, self._clients.reach)
        self._talking = TalkerSide(ground, self._vocoding)
        self.talkers, self.vocoders = self._talking.pool, self._vocoding.pool
        self.gateways: list[Gateway] = []
        self._places: Counter[str] = Counter()
        self._numbers, self._named = count(), count()
        self._load: Load | None = None
        self._turn = 0
        for kind in ("gateway", "talker", "vocoder"):
            for place in range(setup.shape.counted()[kind]):
                self.add(kind, place)

    def add(self, kind: str, place: int) -> None:
        """Start a process that serves at once; `place` says on which node and at which broker."""
        setup, node = self.setup, self.nodes[place % len(self.nodes)]
        home = place % self.bus.brokers
        edge: Edge = getattr(self._costs, kind)
        node.idle += edge.idle if place >= self._places[kind] else 0.0
        self._places[kind] = max(self._places[kind], place + 1)
        name = f"{kind}-{place}-{next(self._named)}"
        kernel, seat = self.kernel, Seat(name, node, home, place)
        if kind == "gateway":
            world = World(self.view, self._living, self._begin, self._refuse)
            self.gateways.append(Gateway(kernel, seat, setup.gateway, world))
        elif kind == "talker":
            self.talkers.add(TalkerWorker(setup, kernel, seat, self._talking.told))
        else:
            self.vocoders.add(VocoderWorker(setup, kernel, seat, self._vocoding.told))

    def run(self, load: Load, until_s: float) -> Heard:
        """What became of all requests of the load; those unended by `until_s` are errors."""
        self._load = load
        self._pull(iter(sorted(load.first(), key=lambda coming: coming[0].at_s)))
        self.kernel.run(until_s)
        for call in list(self.calls.values()):
            self._end(call, "error")
        return self.heard

    # the beginning of a request

    def _pull(self, coming: Iterator[tuple[Wanted, int]]) -> None:
        """Expect the next of those known beforehand: an hour of them at once would fill memory."""
        if (one := next(coming, None)) is None:
            return
        self._expect(*one)
        self.kernel.at(one[0].at_s, lambda: self._pull(coming))

    def _expect(self, wanted: Wanted, user: int) -> None:
        self.kernel.at(wanted.at_s, partial(self._arrive, wanted, user))

    def _arrive(self, wanted: Wanted, user: int) -> None:
        """A client asks; it is where it was sent, so its clock begins now."""
        speech = self._costs.speech
        account = PlaybackAccount(round(speech.frame_rate_hz * SAMPLES))
        number, now = next(self._numbers), self.kernel.now
        frames = speech.frames(wanted.characters)
        call = Call(number, now, frames, account, user, wanted.characters, wanted.key_name)
        self.calls[call.key] = call
        self._connect(call)

    def _connect(self, call: Call) -> None:
        living = [gateway for gateway in self.gateways if gateway.alive]
        if not living:
            self.kernel.after(self._costs.recovery.resume_s, partial(self._connect, call))
            return
        self._turn += 1
        gateway = living[self._turn % len(living)]
        self._clients.ask()
        work_s, judged = self._costs.gateway.asked_s, partial(self._admit, call, gateway)
        self._ground.bus.hop(lambda: gateway.edge.serve(work_s, judged))

    def _admit(self, call: Call, gateway: Gateway) -> None:
        if call.over:
            return
        if not gateway.alive:
            self.kernel.after(self._costs.recovery.resume_s, partial(self._connect, call))
        else:
            gateway.ask(call)

    def _refuse(self, call: Call, gateway: Gateway, retry_s: float) -> None:
        """It has no place, or is given up for those that sound."""
        if not gateway.alive:
            self._connect(call)
            return
        edge = self._costs.gateway
        gateway.edge.serve(edge.refusal_s - edge.asked_s, lambda: None)
        for pool, worker in ((self.talkers, call.talker), (self.vocoders, call.vocoder)):
            if not pool.withdraw(call) and worker is not None and worker.cancel(call.key):
                pool.release(worker)
        self._end(call, "refused", retry_s)

    def _begin(self, call: Call, gateway: Gateway) -> None:
        self._clients.admitted()
        timeout_s = self.setup.gateway.first_audio_timeout_s
        self.kernel.after(timeout_s, partial(self._give_up, call))
        queued = partial(self._ground.queue, self.talkers, call)
        published = partial(self.bus.publish, gateway.home, 0.5, 0.0, queued)
        edge = self._costs.gateway
        if (read_s := edge.request_s / 2 - edge.asked_s) > 0.0:
            gateway.edge.serve(read_s, published)
        else:
            published()

    def _living(self) -> Iterator[Call]:
        """The requests that have a place at a gateway that lives."""
        return (call for g in self.gateways if g.alive for call in g.calls)

    def view(self) -> View:
        """What gateways know of the workers, and of each other."""
        busy = sum(gateway.streams for gateway in self.gateways if gateway.alive)
        rate = self._costs.speech.frame_rate_hz
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
        if call.gateway is not None and call.gateway.alive:
            call.gateway.end(call)
        self.heard.add(call, outcome)
        account, now = call.account, self.kernel.now
        heard_s = max(now, account.ends_at_s) if account.started else now
        if self._load is not None:
            wanted = self._load.next(call.user, call.characters, heard_s, outcome, retry_s)
            if wanted is not None:
                self._expect(wanted, call.user)

    # losses

    def hand_on(self, call: Call, worker: Worker) -> None:
        """A worker of the request's is gone: another goes on behind what is in the logs."""
        if call.over:
            return
        if call.talker is worker and not call.whole:
            self.talkers.submit(call, first=True)
        if call.vocoder is worker:
            self.vocoders.submit(call, first=True)

    def adopt(self, call: Call) -> bool:
        """The client of a dead gateway goes on at another; False where there is none."""
        living = [gateway for gateway in self.gateways if gateway.alive]
        if not living:
            return False
        gateway = min(living, key=lambda one: one.streams)
        gateway.hold(call)
        self._clients.reach(call, 0, resumed=True)
        return True
