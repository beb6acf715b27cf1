"""What both stages do for a job, with an engine that only notes what it is told."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.waits import TIMEOUT_S
from ttscommon.cluster.worker import Job
from ttscommon.engine.runtime import Stopped
from ttscommon.engine.stage_job import EventRouter, StageJob, ending
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import TextTooLong
from ttscommon.wire.messages import Cancel, End, SpeechRequest
from ttscommon.wire.subjects import TALKER

REQUEST = SpeechRequest("r", "m", "v", "hello")


class NotingEngine:
    """Frees a slot as soon as it is told to."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.told: list[tuple[str, float]] = []
        self.freed: list[str] = []

    def playback(self, key: str, start_s: float) -> None:
        self.told.append((key, start_s))

    def cancel(self, key: str, then: Callable[[], object]) -> None:
        self.freed.append(key)
        then()


class NotingWriter:
    """Stands at sample or frame 7."""

    position = 7

    def __init__(self) -> None:
        self.did: list[str] = []

    async def close(self) -> None:
        self.did.append("close")

    async def release(self) -> None:
        self.did.append("release")


class Scene:
    def __init__(self) -> None:
        message: Any = None
        engine: Any = NotingEngine()
        writer: Any = NotingWriter()
        self.engine, self.writer = engine, writer
        self.job = Job(REQUEST, 1, message)
        router: EventRouter[str] = EventRouter()
        self.router = router
        self.stage = StageJob(TALKER, self.engine, router, self.job, writer)

    def tell_playback(self, start_s: float) -> None:
        """As a Playback would; raises TypeError while nothing listens."""
        told: Any = self.job.on_playback
        told(start_s)


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def never() -> None:
    await asyncio.Event().wait()


async def brings(value: str | None) -> str | None:
    return value


async def fails() -> None:
    raise TextTooLong("too long", param="input")


async def later() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "late"


@pytest.mark.parametrize(
    ("works", "found"),
    [
        ((never, partial(brings, "a"), never), "a"),  # what is done first
        ((partial(brings, "a"), partial(brings, "b")), "a"),  # what is named first
        ((partial(brings, None), later), "late"),  # nothing lets the others go on
        ((partial(brings, None), partial(brings, None)), None),
    ],
)
async def test_what_is_done_first_counts_and_the_rest_is_ended(
    scene: Scene, works: tuple[Callable[[], Any], ...], found: str | None
) -> None:
    before = asyncio.all_tasks()
    first: Any = await scene.stage.first(*(work() for work in works))
    assert first == found
    assert asyncio.all_tasks() == before


async def test_a_cancelled_job_ends_before_anything_else_counts(scene: Scene) -> None:
    scene.job.control(Cancel("r"))
    assert await scene.stage.first(brings("a")) == End(
        "r", 7, "cancelled", "cancelled", "cancelled"
    )


async def test_what_one_of_them_raises_is_raised_and_none_is_left(scene: Scene) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(TextTooLong):
        await scene.stage.first(never(), fails())
    assert asyncio.all_tasks() == before


async def test_a_typed_error_ends_a_request_with_its_code_and_any_other_is_internal(
    scene: Scene,
) -> None:
    typed = scene.stage.failure(TextTooLong("too long", param="input"))
    assert typed == End("r", 7, "error", "text_too_long", "too long", "input")
    other = scene.stage.failure(KeyError("x"))
    assert other == End("r", 7, "error", "internal", "synthesis failed")
    with pytest.raises(Stopped):  # no fault of the request
        scene.stage.failure(Stopped())


async def test_an_end_says_what_its_audio_can_be_made_again_of(scene: Scene) -> None:
    again = REQUEST.for_remaking()
    stage = StageJob(TALKER, scene.engine, scene.router, scene.job, scene.writer, again)
    assert stage.end("ok") == End("r", 7, "ok", request=again)


async def test_the_engine_hears_of_playback_before_and_while_events_are_listened_to(
    scene: Scene,
) -> None:
    scene.stage.tell_playback()  # it has not begun
    scene.job.playback_start_s = 2.0
    scene.stage.tell_playback()
    with scene.stage.listening() as events:
        scene.tell_playback(3.0)
        scene.router([("r", "event")])
        assert await asyncio.wait_for(events.get(), TIMEOUT_S) == "event"
    with pytest.raises(TypeError):
        scene.tell_playback(4.0)
    assert scene.engine.told == [("r", 2.0), ("r", 3.0)]


async def test_a_slot_is_freed_and_a_cancellation_measured(scene: Scene) -> None:
    def cancelled() -> float:
        name = "tts_cancel_latency_seconds_count"
        return scene.engine.metrics.registry.get_sample_value(name, {"stage": "talker"}) or 0.0

    await scene.stage.free()
    assert cancelled() == 0.0
    scene.job.control(Cancel("r"))
    since_s = scene.job.cancelled_s
    scene.job.control(Cancel("r"))
    assert scene.job.cancelled_s == since_s
    await scene.stage.free()
    assert scene.engine.freed == ["r", "r"]
    assert cancelled() == 1.0


async def test_a_log_is_committed_behind_its_end_and_let_go_in_any_case(scene: Scene) -> None:
    async with ending(scene.job, scene.writer):
        scene.writer.did.append("end")
    assert scene.writer.did == ["end", "close", "release"]
    scene.writer.did.clear()
    with pytest.raises(TextTooLong):
        async with ending(scene.job, scene.writer):
            await fails()
    assert scene.writer.did == ["release"]


async def test_every_stream_gets_its_own_events_in_order_and_a_later_listener_takes_over() -> None:
    router: EventRouter[int] = EventRouter()
    with router.listening("a") as a, router.listening("b") as b:
        await asyncio.to_thread(router, [("a", 1), ("b", 2), ("nobody", 3), ("a", 4)])
        assert [await a.get(), await a.get(), await b.get()] == [1, 4, 2]
        with router.listening("a") as later:
            router([("a", 5)])
            assert await later.get() == 5
        router([("a", 6)])  # the earlier one left it alone
        await asyncio.sleep(0)
        assert a.empty()
