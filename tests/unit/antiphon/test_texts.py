"""Texts of any length as requests of a bounded one."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.client import Word
from antiphon.texts import (
    LONGEST_CHARS,
    REQUEST_CHARS,
    Requests,
    cues,
    srt_blocks,
    vtt_blocks,
    write,
)

SENTENCE = "The tide is coming in, and the boats are going out. "


async def pieces(*parts: str) -> AsyncIterator[str]:
    for part in parts:
        yield part


async def requests(*parts: str) -> list[str]:
    return [
        "".join([piece async for piece in request]) async for request in Requests(pieces(*parts))
    ]


async def test_a_short_text_or_none_is_one_request_however_it_comes() -> None:
    assert await requests(*"Hello, world.") == ["Hello, world."]
    assert await requests() == [""]


@pytest.mark.parametrize("marks", [".", ".**", "!*)"])
async def test_a_long_text_is_cut_behind_sentences(marks: str) -> None:
    text = SENTENCE.replace(". ", f"{marks} ") * 300
    found = await requests(text)
    assert "".join(found) == text
    assert len(found) > 2
    for request in found[:-1]:
        assert request.endswith(f"out{marks} ")
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


WORDS = [
    Word("The", 0.0, 0.2),
    Word("tide", 0.2, 0.6),
    Word('turns."', 0.6, 1.0),
    Word("A", 1.1, 1.2),
    Word("<boat>", 1.2, 1.5),
    Word("waits", 3661.5, 3662.25),
]


def test_a_cue_ends_with_a_sentence_and_before_a_pause() -> None:
    assert [[word.text for word in cue] for cue in cues(WORDS)] == [
        ["The", "tide", 'turns."'],
        ["A", "<boat>"],
        ["waits"],
    ]


def test_a_cue_can_be_read_in_its_time() -> None:
    long = [Word("syllables", 0.4 * i, 0.4 * i + 0.4) for i in range(60)]
    for cue in cues(long):
        assert sum(len(word.text) + 1 for word in cue) <= 85
        assert cue[-1].end_s - cue[0].start_s <= 7.0 + 1e-9


def test_subrip_numbers_its_cues(tmp_path: Path) -> None:
    write([WORDS], tmp_path / "a.srt", srt_blocks)
    text = (tmp_path / "a.srt").read_text("utf-8")
    assert text.split("\n\n")[0] == '1\n00:00:00,000 --> 00:00:01,000\nThe tide turns."'
    assert text.endswith("3\n01:01:01,500 --> 01:01:02,250\nwaits\n")


def test_webvtt_takes_no_word_for_markup(tmp_path: Path) -> None:
    write([WORDS], tmp_path / "a.vtt", vtt_blocks)
    text = (tmp_path / "a.vtt").read_text("utf-8")
    assert text.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n")
    assert "A &lt;boat&gt;" in text


def test_the_files_that_were_asked_for_are_written(tmp_path: Path) -> None:
    write([WORDS], None, srt_blocks)
    write([WORDS], tmp_path / "a.vtt", vtt_blocks)
    assert [path.name for path in tmp_path.iterdir()] == ["a.vtt"]


def test_cues_of_a_text_in_parts_rise_and_go_over_no_parts_end(tmp_path: Path) -> None:
    parts = [[Word("Chapter", 0.0, 0.3), Word("One", 0.3, 0.5)], [], WORDS[3:5], WORDS[5:]]
    write(parts, tmp_path / "a.srt", srt_blocks)
    written = (tmp_path / "a.srt").read_text("utf-8")
    blocks = [block.splitlines() for block in written.split("\n\n")]
    assert [number for number, _, _ in blocks] == ["1", "2", "3"]
    assert [text for _, _, text in blocks] == ["Chapter One", "A <boat>", "waits"]
    times = re.findall(r"\d\d:\d\d:\d\d,\d{3}", written)
    assert times == sorted(times)
