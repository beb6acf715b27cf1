"""The vocoders of a deployment: a job on its way through one, until its sound leaves the bus."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from antiphon_bench.plan.calls import Call
from antiphon_bench.plan.errors import PlanError
from antiphon_bench.plan.ground import Ground
from antiphon_bench.plan.models import SAMPLES
from antiphon_bench.plan.pools import Pool
from antiphon_bench.plan.spoken import frames_of
from antiphon_bench.plan.workers import VocoderWorker, Worker
from ttscommon.engine.runtime import Failed, Finished
from vocoder.engine.stream import DecodedAudio, Resume, first_frame


class VocoderSide:
    """`pool` has the vocoders."""

    def __init__(self, ground: Ground, heard: Callable[[Call, int], object]) -> None:
        """`heard`: so many samples of a request are at its gateway; 0: there are no more."""
        self._ground, self._heard = ground, heard
        self.pool = Pool(self._begin)

    def _begin(self, worker: Worker, call: Call) -> None:
        call.vocoder, call.fed, call.finishing = worker, -1, False
        opened = partial(self._open, worker, call)
        worker.edge.serve(self._ground.costs.vocoder.request_s / 2, opened)

    def _open(self, worker: Worker, call: Call) -> None:
        """Begin where the listener stands, with what the log has by now."""
        if not worker.alive:
            return
        if call.over or call.vocoder is not worker:
            self.pool.release(worker)
            return
        engine = cast(VocoderWorker, worker).engine
        spec = engine.spec
        frame = (call.voiced + spec.lag_samples) // spec.samples_per_frame if call.voiced else 0
        resume = Resume(call.voiced, frame)
        worker.opened(call.key, partial(engine.open, call.request, resume))
        if not call.silent:
            worker.playback(call.key, self._ground.playback_s(call))
        call.fed = first_frame(spec, frame, None)
        self.feed(call)

    def feed(self, call: Call) -> None:
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

    def sounded(self, worker: Worker, key: str, event: object) -> None:
        """An event of a vocoder's engine. Raises PlanError."""
        call = self._ground.calls.get(key)
        if isinstance(event, Finished):
            self.pool.release(worker)
        if call is None or call.vocoder is not worker:
            return
        match event:
            case DecodedAudio(pcm):
                samples = len(pcm)
                call.voiced += samples
                voiced = partial(self._voice, call, worker, samples)
                self._ground.send(worker, samples / SAMPLES, voiced)
            case Finished():
                ended = partial(self._voice, call, worker, 0)
                worker.edge.serve(self._ground.costs.vocoder.request_s / 2, ended)
            case Failed(error):
                raise PlanError(f"a vocoder failed: {error}") from error

    def _voice(self, call: Call, worker: Worker, samples: int) -> None:
        """Sound, or its end, on its way to the gateway."""
        seconds = self._ground.seconds(samples / SAMPLES)
        share = 0.0 if samples else 0.5
        self._ground.bus.publish(worker.home, share, seconds, lambda: self._heard(call, samples))
