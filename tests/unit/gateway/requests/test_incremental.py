"""Text that comes piece by piece: what the job takes, and what follows it."""

import asyncio

import pytest

from gateway.requests.incremental import IncrementalText
from gateway.requests.lexicon import ClientLexicon, LexiconEntry, LexiconMatcher
from ttscommon.wire.errors import TextTooLong
from ttscommon.wire.pieces import Boundary, Mark, Marked, Pause, Phones, Span


async def rest(text: IncrementalText) -> list[str]:
    found = []
    while (piece := await text.next()) is not None:
        found.append(piece.text)
    return found


async def test_what_comes_behind_the_head_follows_piece_by_piece() -> None:
    text = IncrementalText(100)
    text.add("The tide ")
    assert await text.head(0.0) == (Marked("The tide ", spans=(Span(0, 0),)), False)
    text.add("is ")
    text.add("in.")
    assert await text.next() == Marked("is in.", spans=(Span(0, 9),))
    text.finish()
    assert await rest(text) == []


async def test_the_head_waits_for_something_to_say() -> None:
    text = IncrementalText(100)
    text.add("  ... ")
    waiting = asyncio.create_task(text.head(0.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    text.add("Well. ")
    assert (await waiting)[0].text == "... Well. "


async def test_an_end_that_comes_at_once_saves_the_text_log() -> None:
    text = IncrementalText(100)
    text.add("Hello.")
    waiting = asyncio.create_task(text.head(10.0))
    await asyncio.sleep(0)
    text.finish()
    assert await waiting == (Marked("Hello.", spans=(Span(0, 0),)), True)


async def test_a_text_over_the_limit_fails_on_both_sides() -> None:
    text = IncrementalText(10)
    text.add("Hello, ")
    with pytest.raises(TextTooLong):
        text.add("everybody.")
    with pytest.raises(TextTooLong):
        await text.head(0.0)


async def test_boundaries_phones_and_pauses_come_where_they_were_put() -> None:
    text = IncrementalText(100)
    text.add("One")
    text.boundary()
    text.phones(Phones("tide", "t aI d"))
    text.pause(0.5)
    text.finish()
    head, _ = await text.head(0.0)
    assert head.text == "One tide "
    assert head.marks == (
        Mark(3, Boundary()), Mark(4, Phones("tide", "t aI d")), Mark(8, Pause(0.5)),
    )  # fmt: skip


async def test_others_are_served_while_a_text_is_looked_through() -> None:
    """Of which everything may be the beginning of an entry."""
    entries = [LexiconEntry("a " * count + "b", alias="x") for count in range(4)]
    text, turns, said = IncrementalText(10_000), 0, "a " * 4000 + "c"

    async def serve() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    text.use_lexicons(LexiconMatcher([ClientLexicon(entries)]))
    text.add(said)
    text.finish()
    serving = asyncio.create_task(serve())
    assert (await text.head(0.0))[0].text == said
    serving.cancel()
    assert turns > 50
