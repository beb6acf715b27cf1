"""Work on a device by shape: replayed where it was recorded, run operation by operation elsewhere.

Both go through the same static inputs and come back as one copy, so that what a recording gives is
what the operations give.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device, NotRecorded, Work
from ttscommon.engine.device.transfer import Buffers, DeviceResult, Fetch, Inputs
from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Arrays

ShapeT = TypeVar("ShapeT", bound=Hashable)
InputShapes = Mapping[str, tuple[tuple[int, ...], str]]

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ShapedWork:
    """Work of one shape: where its inputs go, how it is run, and what it gives."""

    inputs: Inputs
    run: Work
    result: DeviceResult


@dataclass(frozen=True)
class Computed(Generic[ShapeT]):
    """What is computed, for any shape.

    inputs: their shapes and numpy dtypes. nothing: inputs of padding alone, which may be run at any
    time. compute: inputs -> results [rows, ...] by name, without a read by the host.
    """

    inputs: Callable[[ShapeT], InputShapes]
    nothing: Callable[[ShapeT], Arrays]
    compute: Callable[[Mapping[str, Tensor], ShapeT], Mapping[str, Tensor]]


class Launches(Generic[ShapeT]):
    """Launches a job on a device, in any of its shapes."""

    def __init__(self, device: Device, buffers: Buffers, job: Computed[ShapeT]) -> None:
        self._device, self._buffers, self._job = device, buffers, job
        self._recorded: dict[ShapeT, ShapedWork] = {}
        self._eager: dict[ShapeT, ShapedWork] = {}
        self._records = True

    def knows(self, shape: ShapeT) -> bool:
        """Whether this shape was recorded."""
        return shape in self._recorded

    @torch.inference_mode()
    def launch(
        self, shape: ShapeT, arrays: Arrays, rows: int, held: Sequence[Tensor] = ()
    ) -> tuple[Fetch, LaunchPath]:
        """Submit the job on `arrays`; its first `rows` rows come back. Nothing is recorded here.

        held: buffers of work before it, see Fetch. Raises DeviceError, or what `compute` raises.
        """
        prepared, filled, path = self._submit(shape, arrays)
        fetch = Fetch(self._device, self._buffers, prepared.result, rows, [*held, filled])
        return fetch, path

    @torch.inference_mode()
    def run(self, shape: ShapeT, arrays: Arrays) -> tuple[Tensor, LaunchPath]:
        """Submit the job for what it leaves on the device; the buffer that it reads, for `held`."""
        _, filled, path = self._submit(shape, arrays)
        return filled, path

    def _submit(self, shape: ShapeT, arrays: Arrays) -> tuple[ShapedWork, Tensor, LaunchPath]:
        path: LaunchPath = "graph" if self.knows(shape) else "eager"
        prepared = self.recorded(shape) if path == "graph" else self.eager(shape)
        filled = prepared.inputs.fill(arrays)
        self._device.submit(prepared.run)
        return prepared, filled, path

    @torch.inference_mode()
    def recorded(self, shape: ShapeT) -> ShapedWork:
        """Work of this shape, recorded if it is not yet; as it is run at once on a device that
        refuses to record one.
        """
        if (found := self._recorded.get(shape)) is not None:
            return found
        if self._records:
            try:
                found = self._recorded[shape] = self._record(shape)
                return found
            except NotRecorded as error:
                self._records = False
                log_.warning("graphs.refused", shape=shape, error=str(error))
        return self.eager(shape)

    def _record(self, shape: ShapeT) -> ShapedWork:
        inputs, result = self._inputs(shape), DeviceResult()
        filled = inputs.fill(self._job.nothing(shape))
        recorded = self._device.record(
            lambda: result.packed(self._job.compute(inputs.tensors, shape))
        )
        result.out = recorded.out
        self._buffers.give_back([filled])
        return ShapedWork(inputs, recorded.run, result)

    @torch.inference_mode()
    def eager(self, shape: ShapeT) -> ShapedWork:
        """Work of this shape that is never recorded."""
        if (found := self._eager.get(shape)) is None:
            inputs, result = self._inputs(shape), DeviceResult()

            @torch.inference_mode()
            def run() -> None:
                result.out = result.packed(self._job.compute(inputs.tensors, shape))

            found = self._eager[shape] = ShapedWork(inputs, run, result)
        return found

    def _inputs(self, shape: ShapeT) -> Inputs:
        return Inputs(self._device, self._buffers, self._job.inputs(shape))
