"""A whole deployment in virtual time: its processes, and requests from their arrival to their end.

What is between is in `stages`.
"""

from __future__ import annotations

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
        self._numbers, self._named = count(), count()
        self._load: Load | None = None
        self._turn = 0
        for kind in ("gateway", "talker", "vocoder"):
            for place in range(setup.shape.counted()[kind]):
                self.add(kind, place)

    def add(self, kind: str, place: int) -> None:
        """Start a process that serves at once; `place` says on which node."""
        setup, node = self.setup, self.nodes[place % len(self.nodes)]
        edge: Edge = getattr(self._costs, kind)
        node.idle += edge.idle
        kernel, seat = self.kernel, Seat(f"{kind}-{place}-{next(self._named)}", node)
        if kind == "gateway":
            world = World(self.view, self._living, self._begin, self._refuse)
            self.gateways.append(Gateway(kernel, seat, setup.gateway, world))
        elif kind == "talker":
            self.talkers.add(TalkerWorker(setup, kernel, seat, self._talking.on_event))
        else:
            self.vocoders.add(VocoderWorker(setup, kernel, seat, self._vocoding.on_event))

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
        self._turn += 1
        gateway = self.gateways[self._turn % len(self.gateways)]
        self._clients.ask()
        work_s, judged = self._costs.gateway.asked_s, partial(self._admit, call, gateway)
        self._ground.bus.hop(lambda: gateway.edge.serve(work_s, judged))

    def _admit(self, call: Call, gateway: Gateway) -> None:
        if not call.over:
            gateway.ask(call)

    def _refuse(self, call: Call, gateway: Gateway, retry_s: float) -> None:
        """It has no place, or is given up for those that sound."""
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
        published = partial(self.bus.publish, 0.5, 0.0, queued)
        edge = self._costs.gateway
        if (read_s := edge.request_s / 2 - edge.asked_s) > 0.0:
            gateway.edge.serve(read_s, published)
        else:
            published()

    def _living(self) -> Iterator[Call]:
        """The requests that have a place at a gateway that lives."""
        return (call for g in self.gateways for call in g.calls)

    def view(self) -> View:
        """What gateways know of the workers, and of each other."""
        busy = sum(gateway.streams for gateway in self.gateways)
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
        if call.gateway is not None:
            call.gateway.end(call)
        self.heard.add(call, outcome)
        account, now = call.account, self.kernel.now
        heard_s = max(now, account.ends_at_s) if account.started else now
        if self._load is not None:
            wanted = self._load.next(call.user, call.characters, heard_s, outcome, retry_s)
            if wanted is not None:
                self._expect(wanted, call.user)

    # a loss

    def hand_on(self, worker: Worker) -> None:
        """A talker is gone: others go on behind what is in the logs, and those whose listeners have
        least to play go first.
        """
        now = self.kernel.now
        orphans = [c for c in self.calls.values() if c.talker is worker and not c.whole]
        orphans.sort(key=lambda call: call.account.slack_s(now))
        for call in reversed(orphans):  # each is put in front of the queue
            self.talkers.submit(call, first=True)
