"""Events on their way from an engine's thread to the requests' coroutines."""

from __future__ import annotations

import asyncio

import pytest

from ttscommon.engine.events import EventRouter


async def test_every_stream_gets_its_own_events_in_order() -> None:
    router: EventRouter[int] = EventRouter()
    with router.listening("a") as a, router.listening("b") as b:
        await asyncio.to_thread(router, [("a", 1), ("b", 2), ("nobody", 3), ("a", 4)])
        assert [await a.get(), await a.get(), await b.get()] == [1, 4, 2]


async def test_a_later_listener_takes_over_and_the_earlier_one_leaves_it_alone() -> None:
    router: EventRouter[int] = EventRouter()
    with router.listening("a") as first:
        with router.listening("a") as second:
            router([("a", 1)])
            assert await second.get() == 1
        router([("a", 2)])
        await asyncio.sleep(0)
        assert first.empty()


async def test_a_closed_loop_is_no_listener() -> None:
    async def made() -> EventRouter[int]:
        return EventRouter()

    router = await asyncio.to_thread(asyncio.run, made())
    with pytest.raises(RuntimeError, match="closed"):
        router([("a", 1)])
