"""Steps of the solver on a device, recorded by streams, frames and what was before them.

A step reads and writes buffers that stay where they are: what streams carry in `Pages`, the rest in
rows that are filled before it and read behind it. Shapes that were not recorded run operation by
operation over the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.device.launches import Computed, InputShapes, Launches
from ttscommon.engine.device.transfer import Buffers
from ttscommon.engine.inflight import BatchSizes
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.cosyvoice.s3_flow.flow import FlowNet, Solving
from ttsfamilies.cosyvoice.s3_flow.pages import (
    PAGE,
    Carrying,
    FixedPass,
    OwnTensors,
    Pages,
    PageSizes,
)
from ttsfamilies.cosyvoice.s3_flow.passage import Passage, state_bytes
from ttsfamilies.cosyvoice.s3_flow.past import NOTHING, Past
from ttsfamilies.cosyvoice.s3_flow.sizes import CHUNK, MEL_FRAMES

T = TypeVar("T")

# Larger steps take a device longer than launching their operations one by one.
_MOST_PAGES: Final = 16
_MOST: Final = 32
# Behind a first stretch come a chunk, or the end with what was looked at.
_LATER_PAGES: Final = 2
_BEFORE: Final = (8, 32)


class StepShape(NamedTuple):
    """What a step is padded to: streams, pages of new frames of each, and pages before them."""

    streams: int
    pages: int
    before: int


class StepShapes:
    """Buckets. grid: whether stretches have others before them. every: all shapes of a bucket."""

    def __init__(self, streams: int, *, grid: bool, pages: int = _MOST_PAGES) -> None:
        self._streams, self._grid = BatchSizes.doubling(streams), grid
        self._pages = BatchSizes.doubling(pages)
        self.every = frozenset(self.expected())

    def expected(self) -> list[StepShape]:
        """All that are recorded, the largest first."""
        every = [
            StepShape(streams, pages, before)
            for pages in self._pages.sizes
            for streams in self._streams.sizes
            for before in self._befores(pages)
            if streams <= self._most(pages)
        ]
        return sorted(every, key=lambda s: -s.streams * (s.pages + s.before))

    def parts(self, works: Sequence[tuple[int, int]]) -> list[tuple[StepShape, list[int]]]:
        """What to launch of stretches, each of so many pages behind so many: shapes, and the works
        in each. What no bucket holds is launched by itself.
        """
        alike: dict[int, list[int]] = {}
        found = []
        for i, (pages, before) in enumerate(works):
            fit = self._pages.fit(pages)
            if fit is None or self._fit(fit, before) is None:
                found.append((StepShape(1, _power(pages), _power(before)), [i]))
            else:
                alike.setdefault(fit, []).append(i)
        for pages, every in alike.items():
            most = self._most(pages)
            for at in range(0, len(every), most):
                mine = every[at : at + most]
                found.append((self._shape(pages, [works[i][1] for i in mine]), mine))
        return found

    def _shape(self, pages: int, befores: Sequence[int]) -> StepShape:
        streams, before = self._streams.fit(len(befores)), self._fit(pages, max(befores))
        assert streams is not None
        assert before is not None
        return StepShape(streams, pages, before)

    def _most(self, pages: int) -> int:
        """Streams of a launch."""
        return max(s for s in self._streams.sizes if s == 1 or s * pages <= _MOST)

    def _befores(self, pages: int) -> tuple[int, ...]:
        later = self._grid and pages <= _LATER_PAGES
        return (0, *_BEFORE) if later else (0,)

    def _fit(self, pages: int, before: int) -> int | None:
        return next((size for size in self._befores(pages) if size >= before), None)


class RecordedSteps(Carrying):
    """See Carrying. Pages for all of `memory` are taken at once."""

    def __init__(
        self, net: FlowNet, memory: int, frame_bytes: int, device: Device, streams: int
    ) -> None:
        """streams: of a launch, at the most."""
        super().__init__(net, memory, frame_bytes)
        self._device = device
        self._weight = net.input_embedding.weight
        self._shapes = StepShapes(streams, grid=bool(net.chunk))
        self._large: dict[str, Tensor] = {}
        self.run(lambda: self._make(self._kept(), streams))
        self._launches = Launches(
            device, Buffers(device), Computed(self._input_shapes, self._nothing, self._compute)
        )

    def _make(self, kept: Past, streams: int) -> None:
        """All that stays where it is. kept: what a step leaves."""
        keys, net = kept.pairs[0].keys, self.net
        sizes = PageSizes(net.steps, len(kept.pairs), *keys.shape[:2])
        # Leaves that no stream has are less than a page.
        count = max(0, self.memory // (CHUNK * self.frame_bytes) - 1)
        self.pages = Pages(count, sizes, keys.dtype, keys.device)
        self._tail = sum(tail[0].numel() for tail in kept.tails)
        self._times = keys.new_tensor(net.times)
        self._rows = self._places(streams, _MOST_PAGES)

    def _kept(self) -> Past:
        """What a step leaves, found by one of a single frame."""
        one = self._weight.new_zeros(self.net.sizes.mels, 1)
        work = Solving(one, one, one, one[:, 0], (NOTHING,) * self.net.steps)
        return self.net.step([work])[0].news[0]

    # what is carried

    @property
    def held(self) -> int:
        return (self.pages.count - self.pages.free) * CHUNK * self.frame_bytes

    @property
    def room(self) -> tuple[int, int]:
        return self.pages.free * CHUNK, self.pages.count * CHUNK

    def begin(self, stream: int, passage: Passage, end: int) -> tuple[Passage, tuple[int, ...]]:
        if passage.closed:
            return passage, ()
        count = (end - passage.kept.tokens) // CHUNK
        if (fresh := self.pages.take(stream, count)) is None:
            return passage.forgetful(self.net), ()
        return passage, fresh

    def behind(self, stream: int, passage: Passage) -> Passage:
        carried = len(passage.kept.pages) * CHUNK
        if passage.closed or carried < passage.kept.tokens:
            return passage.forgetful(self.net)
        return passage

    def keep(self, stream: int, passage: Passage | None) -> None:
        pages: tuple[int, ...] = ()
        if passage is not None:
            pages = passage.kept.pages
            if passage.work is not None:
                pages += passage.work.solving.fresh
        self.pages.keep(stream, pages)

    # steps

    def run(self, work: Callable[[], T]) -> T:
        """In the device's order, and done when it returns."""
        found: list[T] = []
        self._device.submit(lambda: found.append(work()))
        self._device.mark().wait()
        return found[0]

    @torch.inference_mode()
    def record(self) -> None:
        for shape in self._shapes.expected():
            self._launches.recorded(shape)

    @torch.inference_mode()
    def step(self, works: Sequence[Solving]) -> list[Solving]:
        found: dict[int, Solving] = {}
        sizes = [(-(-work.x.shape[1] // PAGE), len(work.pages)) for work in works]
        for shape, mine in self._shapes.parts(sizes):
            after = self._launched(shape, [works[i] for i in mine])
            found |= dict(zip(mine, after, strict=True))
        return [found[i] for i in range(len(works))]

    def _launched(self, shape: StepShape, works: Sequence[Solving]) -> list[Solving]:
        if shape not in self._shapes.every:
            self._large = self._places(shape.streams, shape.pages)
        rows = self._of(shape)
        self._fill(rows, works)
        fetch, path = self._launches.launch(shape, self._arrays(shape, works), len(works))
        self.paths.append(path)
        fetch.wait()
        return [self._read(rows, i, work) for i, work in enumerate(works)]

    def _places(self, streams: int, pages: int) -> dict[str, Tensor]:
        """Rows of zeros for what steps are told and give, [streams, ...] each."""
        mels, blank = self.net.sizes.mels, self._weight.new_zeros
        return {
            **{name: blank(streams, mels, pages * PAGE) for name in ("x", "mu", "cond")},
            "speaker": blank(streams, mels),
            "tails": blank(streams, self.net.rows, self._tail),
        }

    def _of(self, shape: StepShape) -> dict[str, Tensor]:
        """The rows of a shape."""
        every = self._rows if shape in self._shapes.every else self._large
        frames = shape.pages * PAGE
        parts = {name: rows[: shape.streams] for name, rows in every.items()}
        return parts | {name: parts[name][:, :, :frames] for name in ("x", "mu", "cond")}

    def _fill(self, rows: Mapping[str, Tensor], works: Sequence[Solving]) -> None:
        for i, work in enumerate(works):
            count, past = work.x.shape[1], work.pasts[work.done]
            for name in ("x", "mu", "cond"):
                rows[name][i, :, :count] = getattr(work, name)
                rows[name][i, :, count:] = 0
            rows["speaker"][i] = work.speaker
            rows["tails"][i] = past.tails[0] if past.steps else 0

    def _read(self, rows: Mapping[str, Tensor], i: int, work: Solving) -> Solving:
        count = work.x.shape[1]
        steps = work.pasts[work.done].steps + count
        past = Past(steps, (rows["tails"][i].clone(),))
        return replace(work, x=rows["x"][i, :, :count].clone(), news=(*work.news, past))

    def _arrays(self, shape: StepShape, works: Sequence[Solving]) -> Arrays:
        done, steps, before = np.zeros((3, shape.streams), np.int64)
        past = np.full((shape.streams, shape.before), self.pages.blank)
        fresh = np.full((shape.streams, shape.pages), self.pages.waste)
        for i, work in enumerate(works):
            done[i], steps[i], before[i] = work.done, work.x.shape[1], len(work.pages) * PAGE
            past[i, : len(work.pages)] = self.pages.leaves(work.pages, work.done)
            fresh[i, : len(work.fresh)] = self.pages.leaves(work.fresh, work.done)
        return {"done": done, "steps": steps, "before": before, "past": past, "fresh": fresh}

    def _nothing(self, shape: StepShape) -> Arrays:
        return self._arrays(shape, [])

    def _input_shapes(self, shape: StepShape) -> InputShapes:
        return {
            **dict.fromkeys(("done", "steps", "before"), ((shape.streams,), "i8")),
            "past": ((shape.streams, shape.before), "i8"),
            "fresh": ((shape.streams, shape.pages), "i8"),
        }

    def _compute(self, told: Mapping[str, Tensor], shape: StepShape) -> Mapping[str, Tensor]:
        rows, done = self._of(shape), told["done"]
        run = FixedPass(
            told, self.pages.tensor, rows["tails"], self.net.rows, self.net.chunk * MEL_FRAMES
        )
        span = torch.stack((self._times[done], self._times[done + 1]), 1)
        x = self.net.moved(rows["x"], rows["mu"], rows["speaker"], rows["cond"], span, run)
        rows["x"].copy_(x)
        return {"done": done + 1}


def carrying_of(net: FlowNet, how: CodecOptions) -> Carrying:
    """Where a codec runs as these wish; what is solved whole leaves nothing to carry."""
    memory, each = how.memory_bytes if net.chunk else 0, state_bytes(net)
    if how.device is None or net.windowed:
        return OwnTensors(net, memory, each)
    return RecordedSteps(net, memory, each, how.device, how.limits.streams)


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length() if size else 0
