"""Points of the codec called directly: recorded steps, and the same steps run at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch

from antiphon_bench.gpu.records import Point
from antiphon_bench.gpu.subject import Subject, seconds
from ttscommon.engine.device.launches import Prepared
from vocoder.codecs.qwen3_tts.device import Qwen3DeviceCodec
from vocoder.codecs.room import Shape


class Codecs:
    """Measures steps of a codec whose streams are on the device."""

    def __init__(self, subject: Subject, rows: int, runs: int) -> None:
        """rows: the largest batch."""
        self.subject, self.rows, self.runs = subject, rows, runs

    @cached_property
    def codec(self) -> Qwen3DeviceCodec:
        return self.subject.codec(min(64, self.rows))

    def pieces(self) -> Iterator[Point]:
        for batch in (1, 4, 16, 64):
            for frames in (1, 2, 4, 16):
                if batch <= self.rows:
                    yield {"batch": batch, "frames": frames}

    def measured(self, point: Point) -> Point:
        """Pieces of `frames` frames of a batch of streams, states read and written."""
        shape, runs = Shape(point["batch"], point["frames"]), max(1, self.runs // 4)
        of, device = self.codec.launches, self.subject.device
        return {
            "seconds": seconds(device, self._filled(of.recorded(shape), shape).run, runs),
            "eager_seconds": seconds(device, self._filled(of.eager(shape), shape).run, runs),
        }

    def difference(self) -> float:
        """Share of bytes that a recorded step gives otherwise than the same step at once."""
        shape, of = Shape(min(4, self.rows), 2), self.codec.launches
        recorded = self._result(of.recorded(shape), shape)
        at_once = self._result(of.eager(shape), shape)
        return float((recorded != at_once).float().mean())

    def _result(self, prepared: Prepared, shape: Shape) -> torch.Tensor:
        """What a step from states of zeros gives."""
        for tensor in self.codec.resident.tensors.values():
            tensor.zero_()
        self.subject.device.submit(self._filled(prepared, shape).run)
        self.subject.device.mark().wait()
        assert prepared.result.out is not None
        return prepared.result.out.clone()

    def _filled(self, prepared: Prepared, shape: Shape) -> Prepared:
        field = self.codec.spec.frame["codes"]
        drawn = np.random.default_rng(0).integers(0, field.limit or 1, (*shape, *field.shape))
        told = {
            "slots": np.arange(shape.rows),
            "fresh": np.zeros(shape.rows, bool),
            "lengths": np.full(shape.rows, shape.frames),
            "codes": drawn,
        }
        prepared.inputs.fill(told)
        return prepared
