"""A whole deployment in virtual time: requests on their way through gateways, bus and engines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import cast

from antiphon_bench.plan.bus import Bus
from antiphon_bench.plan.calls import Call, Heard, Host, Load, Outcome, Wanted
from antiphon_bench.plan.costs import Edge
from antiphon_bench.plan.errors import PlanError
from antiphon_bench.plan.gateways import Gateway
from antiphon_bench.plan.kernel import Action, Kernel, Node, Seat, Station
from antiphon_bench.plan.models import SAMPLES
from antiphon_bench.plan.pools import Pool
from antiphon_bench.plan.shapes import Setup
from antiphon_bench.plan.spoken import PlannedRequest, frames_of
from antiphon_bench.plan.workers import TalkerWorker, VocoderWorker, Worker
from talker.engine.stream import ChunkReady
from ttscommon.cluster.admission import View
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.sound.playback import PlaybackAccount
from vocoder.engine.stream import DecodedAudio, Resume, first_frame


class Fleet:
    """Processes and what is between them. `run` until every request has ended."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.kernel = setup, Kernel()
        self.heard = Heard()
        self._costs = setup.curves.costs
        shape = setup.shape
        cores = shape.cores if shape.nodes else math.inf
        self.nodes = [Node(cores) for _ in range(max(1, shape.nodes))]
        self.bus = Bus(self.kernel, self.nodes[0], self._costs, shape.brokers)
        self.nodes[0].idle += shape.brokers * self._costs.broker.idle + shape.beside
        self._listeners = Station(self.kernel, self.nodes[0], servers=64)
        self.talkers, self.vocoders = Pool(self._talk), Pool(self._vocode)
        self.gateways: list[Gateway] = []
        self.calls: dict[str, Call] = {}
        self._places: Counter[str] = Counter()
        self._numbers, self._named = count(), count()
        self._load: Load | None = None
        self._turn = 0
        for kind, wanted in (
            ("gateway", shape.gateways),
            ("talker", shape.talkers),
            ("vocoder", shape.vocoders),
        ):
            for place in range(wanted):
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
            self.gateways.append(Gateway(kernel, seat, setup.gateway))
        elif kind == "talker":
            self.talkers.add(TalkerWorker(setup.curves, setup.talker, kernel, seat, self._spoke))
        else:
            self.vocoders.add(
                VocoderWorker(setup.curves, setup.vocoder, kernel, seat, self._sounded)
            )

    def run(self, load: Load, until_s: float) -> Heard:
        """What became of all requests of the load; those unended by `until_s` are errors."""
        self._load = load
        self._pull(iter(sorted(load.first(), key=lambda coming: coming[0].at_s)))
        self.kernel.run(until_s)
        for call in list(self.calls.values()):
            self._end(call, "error")
        return self.heard

    # the way of a request

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
        frames = speech.frames(wanted.characters)
        call = Call(next(self._numbers), self.kernel.now, frames, account, user)
        self.calls[call.key] = call
        self._connect(call)

    def _connect(self, call: Call) -> None:
        living = [gateway for gateway in self.gateways if gateway.alive]
        if not living:
            self.kernel.after(self._costs.recovery.resume_s, partial(self._connect, call))
            return
        self._turn += 1
        gateway = living[self._turn % len(living)]
        if self.setup.shape.listeners is not None:
            self._listeners.serve(self.setup.shape.listeners.request_s, _nothing)
        work_s = self._costs.gateway.request_s / 2
        hop_s = self._costs.hop_s
        self.kernel.after(
            hop_s, lambda: gateway.edge.serve(work_s, partial(self._admit, call, gateway))
        )

    def _admit(self, call: Call, gateway: Gateway) -> None:
        if call.over:
            return
        if not gateway.alive:
            self.kernel.after(self._costs.recovery.resume_s, partial(self._connect, call))
        elif gateway.admit(call, self.view()):
            timeout_s = self.setup.gateway.first_audio_timeout_s
            self.kernel.after(timeout_s, partial(self._give_up, call))
            self.bus.publish(gateway.home, 0.5, 0.0, lambda: self._queue(self.talkers, call))
        else:
            self._end(call, "refused")

    def view(self) -> View:
        """What gateways know of the workers, and of each other."""
        busy = sum(gateway.streams for gateway in self.gateways if gateway.alive)
        rate = self._costs.speech.frame_rate_hz
        return View(self.talkers.reports(), self.vocoders.reports(), busy, rate)

    def _queue(self, pool: Pool, call: Call) -> None:
        """The queue takes a job as soon as it has a leader."""
        if self.kernel.now < self.bus.queues_back_s:
            self.kernel.at(self.bus.queues_back_s, partial(self._queue, pool, call))
        elif not call.over:
            pool.submit(call)

    def _give_up(self, call: Call) -> None:
        if not call.over and call.silent and self.talkers.withdraw(call):
            self._end(call, "refused")

    # talkers

    def _talk(self, worker: Worker, call: Call) -> None:
        call.talker = worker
        now, node, reading = self.kernel.now, worker.node, self._costs.reading
        read_s = self._costs.read_s * node.stretch(now)
        node.worked(reading.request_s + reading.sound_s * self._seconds(call.frames), now)
        opened = partial(self._open_talker, worker, call)
        worker.edge.serve(
            self._costs.talker.request_s / 2, lambda: self.kernel.after(read_s, opened)
        )
        if not call.asked:
            call.asked = True
            self.bus.publish(worker.home, 0.0, 0.0, lambda: self._queue(self.vocoders, call))

    def _open_talker(self, worker: Worker, call: Call) -> None:
        if not worker.alive:
            return
        if call.over or call.talker is not worker:
            self.talkers.release(worker)
            return
        engine = cast(TalkerWorker, worker).engine
        restored = frames_of(call.committed) if call.committed else None
        prepared = PlannedRequest(call.request)
        worker.tell(lambda: engine.open(prepared, restored, (call.frames,), final=True))
        if not call.silent:
            worker.playback(call.key, self._playback_s(call))

    def _spoke(self, worker: Worker, key: str, event: object) -> None:
        """An event of a talker's engine."""
        call = self.calls.get(key)
        if isinstance(event, Finished):
            self.talkers.release(worker)
        if call is None or call.talker is not worker:
            return
        match event:
            case ChunkReady(arrays):
                frames = len(arrays["codes"])
                self._send(worker, frames, partial(self._commit, call, worker, frames))
            case Finished():
                worker.edge.serve(
                    self._costs.talker.request_s / 2, partial(self._commit, call, worker, 0)
                )
            case Failed(error):
                raise PlanError(f"a talker failed: {error}") from error

    def _send(self, worker: Worker, frames: float, then: Action) -> None:
        """What a worker's edge does with so many frames of sound, or of what becomes sound."""
        edge = self._costs.talker if worker.stage == "talker" else self._costs.vocoder
        worker.edge.serve(edge.sound_s * frames / self._costs.speech.frame_rate_hz, then)

    def _commit(self, call: Call, worker: Worker, frames: int) -> None:
        """The next frames of a request, or its end, are in the log."""
        if not worker.alive or call.over or call.talker is not worker:
            return
        call.committed += frames
        call.whole = call.whole or not frames
        if frames:
            engine = cast(TalkerWorker, worker).engine
            worker.tell(lambda: engine.acknowledge(call.key))
        self.bus.publish(worker.home, 0.0, self._seconds(frames), lambda: self._feed(call))

    # vocoders

    def _vocode(self, worker: Worker, call: Call) -> None:
        call.vocoder, call.fed, call.finishing = worker, -1, False
        opened = partial(self._open_vocoder, worker, call)
        worker.edge.serve(self._costs.vocoder.request_s / 2, opened)

    def _open_vocoder(self, worker: Worker, call: Call) -> None:
        """Begin where the listener stands, with what the log has by now."""
        if not worker.alive:
            return
        if call.over or call.vocoder is not worker:
            self.vocoders.release(worker)
            return
        engine = cast(VocoderWorker, worker).engine
        spec = engine.spec
        frame = (call.voiced + spec.lag_samples) // spec.samples_per_frame if call.voiced else 0
        resume = Resume(call.voiced, frame)
        worker.tell(lambda: engine.open(call.request, resume))
        if not call.silent:
            worker.playback(call.key, self._playback_s(call))
        call.fed = first_frame(spec, frame, None)
        self._feed(call)

    def _feed(self, call: Call) -> None:
        """Give the vocoder what the log has and it has not."""
        worker = call.vocoder
        if call.over or worker is None or not worker.alive or call.fed < 0 or call.finishing:
            return
        engine = cast(VocoderWorker, worker).engine
        if (more := call.committed - call.fed) > 0:
            call.fed = call.committed
            worker.tell(lambda: engine.feed(call.key, frames_of(more)))
        if call.whole:
            call.finishing = True
            worker.tell(lambda: engine.finish(call.key))

    def _sounded(self, worker: Worker, key: str, event: object) -> None:
        """An event of a vocoder's engine."""
        call = self.calls.get(key)
        if isinstance(event, Finished):
            self.vocoders.release(worker)
        if call is None or call.vocoder is not worker:
            return
        match event:
            case DecodedAudio(pcm):
                samples = len(pcm)
                call.voiced += samples
                self._send(worker, samples / SAMPLES, partial(self._voice, call, worker, samples))
            case Finished():
                worker.edge.serve(
                    self._costs.vocoder.request_s / 2, partial(self._voice, call, worker, 0)
                )
            case Failed(error):
                raise PlanError(f"a vocoder failed: {error}") from error

    def _voice(self, call: Call, worker: Worker, samples: int) -> None:
        """Sound, or its end, on its way to the gateway."""
        seconds = self._seconds(samples / SAMPLES)
        share = 0.0 if samples else 0.5
        self.bus.publish(worker.home, share, seconds, lambda: self._reach(call, samples))

    # listeners

    def _reach(self, call: Call, samples: int, *, resumed: bool = False) -> None:
        """Sound at the gateway, or at the next one for a client whose own has died."""
        gateway = call.gateway
        call.said = call.said or not (samples or resumed)
        call.held += samples
        if gateway is None or not gateway.alive or call.over:
            return
        samples, call.held = call.held, 0
        work_s = self._costs.gateway.sound_s * self._seconds(samples / SAMPLES)
        work_s += self._costs.gateway.request_s / 2 if call.said else 0.0
        gateway.edge.serve(work_s, lambda: self._hear(call, gateway, samples))

    def _hear(self, call: Call, gateway: Host, samples: int) -> None:
        if call.over:
            return
        if not gateway.alive or call.gateway is not gateway:
            call.held += samples
            self._reach(call, 0, resumed=True)
            return
        if samples:
            if call.silent:
                gateway.spoke(call)
            self.kernel.after(self._costs.hop_s, partial(self._play, call, samples))
        if call.said:
            self.kernel.after(self._costs.hop_s, lambda: self._end(call, "ok"))

    def _play(self, call: Call, samples: int) -> None:
        account = call.account
        first = not account.started
        account.feed(samples, self.kernel.now)
        if self.setup.shape.listeners is not None:
            work_s = self.setup.shape.listeners.sound_s * self._seconds(samples / SAMPLES)
            self._listeners.serve(work_s, _nothing)
        if first:
            self.bus.publish(0, 0.0, 0.0, lambda: self._tell_playback(call))

    def _tell_playback(self, call: Call) -> None:
        for worker in (call.talker, call.vocoder):
            if worker is not None and worker.alive and not call.over:
                worker.playback(call.key, self._playback_s(call))

    def _end(self, call: Call, outcome: Outcome) -> None:
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
            wanted = self._load.next(call.user, heard_s, ok=outcome == "ok")
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
        self._reach(call, 0, resumed=True)
        return True

    def _seconds(self, frames: float) -> float:
        return frames / self._costs.speech.frame_rate_hz

    def _playback_s(self, call: Call) -> float:
        first_s = call.account.first_at_s
        return self.kernel.now if first_s is None else first_s


def _nothing() -> None:
    """There is nothing to do."""
