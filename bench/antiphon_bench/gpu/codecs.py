"""Points of the codec called directly: recorded steps, and the same steps run at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch

from antiphon_bench.gpu.both import VOCODER
from antiphon_bench.gpu.records import Point
from antiphon_bench.gpu.subject import Subject, seconds
from ttscommon.engine.device.device import exact_products
from ttscommon.engine.device.launches import ShapedWork
from ttscommon.wire.fields import Array
from ttsfamilies.base.codec.options import BatchShape, DeviceLimits
from ttsfamilies.qwen3_tts.codec import Qwen3Codec


class Codecs:
    """Measures steps of a codec whose streams are on the device."""

    def __init__(self, subject: Subject, rows: int, runs: int) -> None:
        """rows: the largest batch."""
        self.subject, self.rows, self.runs = subject, rows, runs

    @cached_property
    def codec(self) -> Qwen3Codec:
        rows = min(64, self.rows)
        return self.subject.codec(DeviceLimits(2 * rows, streams=rows))

    @cached_property
    def on_tensor_cores(self) -> Qwen3Codec:
        """The same weights."""
        return self.subject.on_tensor_cores(self.codec, min(64, self.rows))

    def for_streams(self, streams: int) -> Qwen3Codec:
        """One for so many streams at once, recorded as a vocoder's."""
        codec = self.codec_of(streams)
        codec.warm_up([])
        return codec

    def codec_of(self, streams: int) -> Qwen3Codec:
        """The same, with nothing recorded yet."""
        rows = min(streams, VOCODER.batch_streams)
        return self.subject.codec(DeviceLimits(2 * streams, rows, VOCODER.batch_frames))

    def pieces(self) -> Iterator[Point]:
        for batch in (1, 4, 16, 64):
            for frames in (1, 2, 4, 16):
                if batch <= self.rows:
                    yield {"batch": batch, "frames": frames}

    def measured(self, point: Point) -> Point:
        """Pieces of `frames` frames of a batch of streams, states read and written."""
        shape, runs = BatchShape(point["batch"], point["frames"]), max(1, self.runs // 4)
        of, device = self.codec.on_device.launches, self.subject.device
        found = {
            "seconds": seconds(device, self._filled(of.recorded(shape), shape).run, runs),
            "eager_seconds": seconds(device, self._filled(of.eager(shape), shape).run, runs),
        }
        fast = self._filled(self.on_tensor_cores.on_device.launches.recorded(shape), shape)
        found["tensor_core_seconds"] = seconds(device, fast.run, runs)
        found["tensor_core_steps_off"] = _steps(
            self._samples(self.on_tensor_cores, shape), self._samples(self.codec, shape)
        )
        exact_products(False)
        try:
            eager = self._filled(of.eager(shape), shape).run
            return {**found, "eager_tf32_seconds": seconds(device, eager, runs)}
        finally:
            exact_products()

    def difference(self) -> float:
        """Share of bytes that a recorded step gives otherwise than the same step at once."""
        shape, of = BatchShape(min(4, self.rows), 2), self.codec.on_device.launches
        recorded = self._result(self.codec, of.recorded(shape), shape)
        at_once = self._result(self.codec, of.eager(shape), shape)
        return float((recorded != at_once).float().mean())

    def from_the_cpu(self) -> float:
        """Most steps of int16 by which samples differ from those of the same weights on the CPU."""
        shape, cpu = BatchShape(1, 4), self.subject.on_cpu(self.codec)
        return _steps(self._samples(self.codec, shape), self._samples(cpu, shape))

    def across_shapes(self) -> float:
        """Most steps of int16 by which a stream's samples differ with the batch it is in."""
        alone = self._samples(self.codec, BatchShape(1, 4))
        batches = [rows for rows in (1, 2, 4, 16, 64) if rows <= self.rows]
        found = [self._samples(self.codec, BatchShape(rows, 4))[:1] for rows in batches]
        return max(_steps(samples, alone) for samples in found)

    def _samples(self, codec: Qwen3Codec, shape: BatchShape) -> Array:
        """Of a step from blank states, [rows, samples], as float32."""
        prepared = codec.on_device.launches.eager(shape)
        packed = self._result(codec, prepared, shape)
        return prepared.result.unpacked(packed.cpu().numpy())["samples"]

    @torch.inference_mode()
    def _result(self, codec: Qwen3Codec, prepared: ShapedWork, shape: BatchShape) -> torch.Tensor:
        """What a step from states of zeros gives."""
        device = codec.on_device.device
        for tensor in codec.on_device.slots.tensors.values():
            tensor.zero_()
        device.submit(self._filled(prepared, shape).run)
        device.mark().wait()
        assert prepared.result.out is not None
        return prepared.result.out.clone()

    def _filled(self, prepared: ShapedWork, shape: BatchShape) -> ShapedWork:
        field, g = self.codec.spec.frame["codes"], np.random.default_rng(0)
        # Row by row: a stream's codes are the same in every batch.
        drawn = g.integers(0, field.limit or 1, (*shape, *field.shape))
        told = {
            "slots": np.arange(shape.rows),
            "fresh": np.zeros(shape.rows, bool),
            "lengths": np.full(shape.rows, shape.frames),
            "codes": drawn,
        }
        prepared.inputs.fill(told)
        return prepared


def _steps(one: Array, other: Array) -> float:
    """The largest difference, in steps of int16."""
    return float(32767 * np.abs(one.astype(np.float64) - other.astype(np.float64)).max())
