"""Room that streams give back whose text pauses. The clock moves only while a request waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from gateway.admission.pauses import Pauses


@dataclass
class Stream:
    """Text or sound came last at `touched_s`."""

    touched_s: float
    complete: bool = False
    resting: bool = False

    def paused_s(self, now: float) -> float:
        return 0.0 if self.complete or self.resting else now - self.touched_s

    def rest(self) -> None:
        self.resting = True


class Scene:
    """Pauses on a clock that moves only while a request waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.pauses = Pauses(lambda: self.now_s, pause_s=0.2, rest_s=1.0)
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def follow(self, *streams: Stream) -> Callable[[], bool]:
        """Whether none of them rests: there is room for one."""
        for stream in streams:
            self.pauses.follow(stream)
        return lambda: not any(stream.resting for stream in streams)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


async def test_a_request_waits_for_the_stream_that_has_paused_for_longest(scene: Scene) -> None:
    first, second = Stream(99.6), Stream(99.7)
    await scene.pauses.make_room(scene.follow(second, first))
    assert (first.resting, second.resting) == (True, False)
    assert scene.now_s == pytest.approx(100.6)


async def test_a_stream_that_has_paused_for_long_rests_at_once(scene: Scene) -> None:
    stream = Stream(98.0)
    await scene.pauses.make_room(scene.follow(stream))
    assert stream.resting
    assert scene.now_s == 100.0


@pytest.mark.parametrize(
    "stream",
    [Stream(99.9), Stream(90.0, complete=True), Stream(90.0, resting=True)],
    ids=["it speaks", "its text is complete", "it rests already"],
)
async def test_nothing_is_waited_for_where_no_text_pauses(scene: Scene, stream: Stream) -> None:
    scene.follow(stream)
    await scene.pauses.make_room(lambda: True)
    assert scene.now_s == 100.0


async def test_a_stream_that_is_over_is_not_waited_for(scene: Scene) -> None:
    stream = Stream(99.5)
    is_full = scene.follow(stream)
    scene.pauses.forget(stream)
    await scene.pauses.make_room(is_full)
    assert scene.now_s == 100.0


async def test_text_that_comes_again_and_again_is_waited_for_only_so_long(scene: Scene) -> None:
    stream = Stream(99.5)

    def is_full() -> bool:
        stream.touched_s = scene.now_s - 0.5
        return True

    scene.follow(stream)
    await scene.pauses.make_room(is_full)
    assert scene.now_s == pytest.approx(101.0)


async def test_nothing_is_waited_for_where_there_is_room(scene: Scene) -> None:
    scene.follow(Stream(99.5))
    await scene.pauses.make_room(lambda: False)
    assert scene.now_s == 100.0
