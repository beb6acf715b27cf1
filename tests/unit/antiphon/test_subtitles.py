"""Subtitles of what was spoken."""

from __future__ import annotations

import re
from pathlib import Path

from antiphon.client import Word
from antiphon.subtitles import cues, srt_blocks, vtt_blocks, write

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
