"""Models that lose their text: one without a network, and a tiny voice that stands still."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tests.unit.ttsfamilies.tiny_vesper import tiny
from ttscommon.wire.fields import Arrays, Field
from ttsfamilies.base.talker.base import Family, Prepared
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.base.talker.streams import Progress, Results, Row, Taken
from ttsfamilies.fake.talker import FakeModel, FakeRunner, FakeStream, Manner, StepCurve
from ttsfamilies.vesper.family import Vesper
from ttsfamilies.vesper.stream import VesperSampling

UTTERANCE: Final = 30
"""Frames of one that does not lose its text, and characters."""
_GOOD: Final = 8


def guarded(make: Callable[[], Family]) -> Family:
    return ServedFamily(make())


def lost(seed: int, begun: int) -> bool:
    """Whether the utterance that begins at this frame never ends; two draws in three do not."""
    return zlib.crc32(f"{seed} {begun}".encode()) % 3 > 0


class _Runner(FakeRunner):
    """Drones on and on where it has lost its text."""

    def _compute(self, batch: Sequence[Row]) -> Results:
        results = super()._compute(batch)
        for index, row in enumerate(batch):
            if results.gained[index]:
                self._end_or_drone(results, index, row.slot)
        return results

    def _end_or_drone(self, results: Results, index: int, slot: int) -> None:
        state = self._state
        seed, frame, begun = (int(state[name][slot]) for name in ("seed", "frame", "begun"))
        if lost(seed, begun):
            if frame - begun > _GOOD:
                results.frames["codes"][index, 0, 0] = seed % 7
        elif frame - begun > UTTERANCE:
            results.ended[index], results.gained[index] = True, 0  # type: ignore[index]
            for name, value in (
                ("frame", frame - 1),
                ("begun", frame - 1),
                ("step", 0),
                ("over", 1),
            ):
                state[name][slot] = value


class _Stream(FakeStream):
    """As many utterances as its text is long; the log says which a frame is of."""

    _at = 0
    most = 1 << 40  # frames

    def progress(self) -> Progress:
        return Progress(self._begun)

    @property
    def _limit(self) -> int:
        return self.most if self._at * UTTERANCE < self._characters else self._frames

    @property
    def done(self) -> bool:
        said = self._final and self._at * UTTERANCE >= self._characters
        return said or self._frames >= self.most

    def restore(self, arrays: Arrays) -> None:
        self._of = arrays["of"].tolist()
        super().restore(arrays)

    def _stand(self, frames: int) -> None:
        self._of = self._of[:frames]
        self._frames, self._at = frames, self._of[-1]
        self._begun = self._of.index(self._at)
        self._steps = frames - self._begun

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        before = self._frames
        super().accept(cached, frames, ended)
        self._of = [*getattr(self, "_of", ()), *[self._at] * (self._frames - before)]
        self._at += ended

    def leave(self) -> bool:
        self._at, self._begun, self._steps = self._at + 1, self._frames, 0
        self.rewind(self._frames)
        return True

    def take(self, count: int) -> Taken:
        of, taken = self._of[self._taken :][:count], super().take(count)
        return Taken({**taken.frames, "of": np.array(of, np.int32)})


class Forgetful(FakeModel):
    """Loses its text in two draws of three, and then never ends."""

    def __init__(self, most: int = _Stream.most) -> None:
        """most: frames of a request."""
        super().__init__("m", StepCurve(), lambda _: None, Manner(cached=True))
        self._most = most
        self.spec = replace(self.spec, replay={"of": Field((), "i4")})

    def open(self, prepared: Prepared) -> _Stream:
        stream = _Stream(prepared.request, self.manner)
        stream.most = self._most
        return stream

    def runner(self, rows: int, blocks: int, depth: int) -> FakeRunner:
        return _Runner(self, rows, blocks, depth)


def standing(reluctance: float = 30.0) -> Vesper:
    """A vesper whose pointer stands still until it has to go on."""
    family = tiny(reluctance=reluctance)
    family._sampling = VesperSampling()
    return family
