"""Text that comes piece by piece: what the job takes, and what follows it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.requests.incremental import Head, IncrementalText
from ttscommon.errors import NothingToSay, TextTooLong


async def rest(text: IncrementalText) -> list[str]:
    found = []
    while (piece := await text.next()) is not None:
        found.append(piece)
    return found


async def test_a_text_that_is_complete_is_all_head() -> None:
    text = IncrementalText(100)
    text.add("The tide ")
    text.add("is in.")
    text.finish()
    assert await text.head(0.0) == Head("The tide is in.", final=True)
    assert await rest(text) == []


async def test_what_comes_behind_the_head_follows_piece_by_piece() -> None:
    text = IncrementalText(100)
    text.add("The tide ")
    assert await text.head(0.0) == Head("The tide ", final=False)
    text.add("is ")
    text.add("in.")
    assert await text.next() == "is in."
    text.finish()
    assert await rest(text) == []


async def test_the_head_waits_for_something_to_say() -> None:
    text = IncrementalText(100)
    text.add("  ... ")
    waiting = asyncio.create_task(text.head(0.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    text.add("Well. ")
    assert (await waiting).text == "... Well. "


async def test_an_end_that_comes_at_once_saves_the_text_log() -> None:
    text = IncrementalText(100)
    text.add("Hello.")
    waiting = asyncio.create_task(text.head(10.0))
    await asyncio.sleep(0)
    text.finish()
    assert await waiting == Head("Hello.", final=True)


async def test_a_text_without_a_speakable_character_is_refused() -> None:
    text = IncrementalText(100)
    text.add("...")
    text.finish()
    with pytest.raises(NothingToSay):
        await text.head(0.0)


async def test_a_text_over_the_limit_fails_on_both_sides() -> None:
    text = IncrementalText(10)
    text.add("Hello, ")
    with pytest.raises(TextTooLong):
        text.add("everybody.")
    with pytest.raises(TextTooLong):
        await text.head(0.0)
