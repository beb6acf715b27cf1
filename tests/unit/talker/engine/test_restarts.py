"""Streams that lose what is no frame yet when their cache is taken: each comes to its end."""

from __future__ import annotations

import pytest

from tests.turning import turn
from tests.unit.talker.engine.test_engine import Driven, both_depths, expected
from ttscommon.wire.requests import OFFLINE
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.blocks import blocks_for
from ttsfamilies.fake.talker import PROMPT, FakeModel, FakeStream, Manner, StepCurve

RUN = 33
"""Steps of a frame: as many as a model may say words without sound."""


class Forgetting(FakeStream):
    """Begins again behind its last frame."""

    def rewind(self, frames: int) -> None:
        super().rewind(frames)
        self._steps = (self._frames - self._begun) * self._manner.steps_per_frame


class Wordy(FakeModel):
    """A step takes a tenth of a second, so that those who wait are soon out of patience."""

    def __init__(self, now: list[float]) -> None:
        def sleep(seconds: float) -> None:
            now[0] += seconds

        manner = Manner(cached=True, steps_per_frame=RUN)
        super().__init__("m", StepCurve(0.1, 0.0, 0.0), sleep, manner)

    def open(self, prepared: Prepared) -> FakeStream:
        return Forgetting(prepared.request, self.manner)


def run(driven: Driven, now: list[float]) -> None:
    for _ in range(20_000):
        if all(over.is_set() for over in driven.over.values()):
            return
        turn(driven.engine)
        now[0] += 0.01
    raise AssertionError("the streams did not end")


@both_depths
@pytest.mark.parametrize("blocks", [13, 19])
@pytest.mark.parametrize("streams", [2, 5])
def test_each_of_them_comes_to_its_end(depth: int, blocks: int, streams: int) -> None:
    """The first is heard by no listener."""
    now, frames = [0.0], 6
    assert blocks_for(PROMPT + RUN * frames) == 13  # so that one alone has room
    driven = Driven(Wordy(now), clock=lambda: now[0], depth=depth, blocks=blocks)
    for seed in range(streams):
        driven.open(f"s{seed}", "x" * 4, seed=seed, priority=OFFLINE + 5 * (seed > 0))
    run(driven, now)
    for seed in range(streams):
        assert driven.codes(f"s{seed}") == expected(seed, frames)
