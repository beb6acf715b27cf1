"""Texts of any length as requests of a bounded one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from antiphon.texts import LONGEST_CHARS, REQUEST_CHARS, Requests

SENTENCE = "The tide is coming in, and the boats are going out. "


async def pieces(*parts: str) -> AsyncIterator[str]:
    for part in parts:
        yield part


async def requests(*parts: str) -> list[str]:
    return [
        "".join([piece async for piece in request]) async for request in Requests(pieces(*parts))
    ]


async def test_a_short_text_is_one_request_however_it_comes() -> None:
    assert await requests(*"Hello, world.") == ["Hello, world."]


async def test_a_text_without_words_is_one_empty_request() -> None:
    assert await requests() == [""]


async def test_a_long_text_is_cut_behind_sentences() -> None:
    text = SENTENCE * 300
    found = await requests(text)
    assert "".join(found) == text
    assert len(found) > 2
    for request in found[:-1]:
        assert request.endswith("out. ")
        assert REQUEST_CHARS <= len(request) <= LONGEST_CHARS


async def test_a_text_without_sentences_is_cut_between_words() -> None:
    text = "word " * 4000
    found = await requests(text)
    assert "".join(found) == text
    assert all(request.endswith(" ") and len(request) <= LONGEST_CHARS for request in found)


async def test_pieces_leave_as_they_come() -> None:
    seen: list[str] = []

    async def typed() -> AsyncIterator[str]:
        for part in ("One ", "two "):
            yield part
            assert seen[-1] == part, "the piece left before the next was asked for"

    async for request in Requests(typed()):
        async for piece in request:
            seen += [piece]
    assert seen == ["One ", "two "]


async def test_what_was_not_spoken_to_its_end_is_not_begun_again() -> None:
    count = 0
    async for _ in Requests(pieces("Hello.")):
        count += 1
    assert count == 1


@given(st.lists(st.text(alphabet="ab .!\n", min_size=1, max_size=3000), max_size=12))
async def test_nothing_is_lost_whatever_the_pieces(parts: list[str]) -> None:
    found = await requests(*parts)
    assert "".join(found).strip() == "".join(parts).strip()
    assert all(len(request) <= LONGEST_CHARS + 3000 for request in found)
