"""The talkers of a deployment: a job on its way through one, until its frames are in the log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from antiphon_bench.plan.calls import Call
from antiphon_bench.plan.errors import PlanError
from antiphon_bench.plan.ground import Ground
from antiphon_bench.plan.pools import Pool
from antiphon_bench.plan.spoken import PlannedRequest, frames_of
from antiphon_bench.plan.workers import TalkerWorker, Worker
from talker.engine.stream import ChunkReady
from ttscommon.engine.runtime import Failed, Finished


class TalkerSide:
    """`pool` has the talkers."""

    def __init__(self, ground: Ground, vocoders: Pool, logged: Callable[[Call], object]) -> None:
        """`logged`: the codec log has more of a request than before, or its end."""
        self._ground, self._vocoders, self._logged = ground, vocoders, logged
        self.pool = Pool(self._begin)

    def _begin(self, worker: Worker, call: Call) -> None:
        call.talker = worker
        ground, reading = self._ground, self._ground.costs.reading
        now, node = ground.kernel.now, worker.node
        read_s = ground.costs.read_s * worker.edge.stretch()
        node.worked(reading.request_s + reading.sound_s * ground.seconds(call.frames), now)
        opened = partial(self._open, worker, call)
        worker.edge.serve(
            ground.costs.talker.request_s / 2, lambda: ground.kernel.after(read_s, opened)
        )
        if not call.asked:
            call.asked = True
            asked = partial(ground.queue, self._vocoders, call)
            ground.bus.publish(worker.home, 0.0, 0.0, asked)

    def _open(self, worker: Worker, call: Call) -> None:
        if not worker.alive:
            return
        if call.over or call.talker is not worker:
            self.pool.release(worker)
            return
        engine = cast(TalkerWorker, worker).engine
        restored = frames_of(call.committed) if call.committed else None
        prepared = PlannedRequest(call.request)
        begin = partial(engine.open, prepared, restored, (call.frames,), final=True)
        worker.opened(call.key, begin)
        if not call.silent:
            worker.playback(call.key, self._ground.playback_s(call))

    def spoke(self, worker: Worker, key: str, event: object) -> None:
        """An event of a talker's engine. Raises PlanError."""
        call = self._ground.calls.get(key)
        if isinstance(event, Finished):
            self.pool.release(worker)
        if call is None or call.talker is not worker:
            return
        match event:
            case ChunkReady(arrays):
                frames = len(arrays["codes"])
                self._ground.send(worker, frames, partial(self._commit, call, worker, frames))
            case Finished():
                ended = partial(self._commit, call, worker, 0)
                worker.edge.serve(self._ground.costs.talker.request_s / 2, ended)
            case Failed(error):
                raise PlanError(f"a talker failed: {error}") from error

    def _commit(self, call: Call, worker: Worker, frames: int) -> None:
        """The next frames of a request, or its end, are in the log."""
        if not worker.alive or call.over or call.talker is not worker:
            return
        call.committed += frames
        call.whole = call.whole or not frames
        if frames:
            engine = cast(TalkerWorker, worker).engine
            worker.tell(lambda: engine.acknowledge(call.key))
        seconds = self._ground.seconds(frames)
        self._ground.bus.publish(worker.home, 0.0, seconds, lambda: self._logged(call))
