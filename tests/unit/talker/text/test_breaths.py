"""Segments are cut where a person would breathe; the first is short and the next grow."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from talker.text.breaths import Breaths
from talker.text.english import english
from talker.text.misaki import TOKENS, Tokens, tokens_of
from ttscommon.engine.checkpoint import CheckpointError

LONG = (
    "When the rain had stopped, we went out into the garden, where the apples lay in the wet grass"
    " and the birds were already at work on them; my sister picked up the best ones, and I carried"
    " the basket until it was so heavy that we had to stop and rest beside the old wall for a while"
)


def tokens(text: str) -> Tokens:
    return tokens_of(english(Path("nowhere")).phones(text))


def cut(text: str, **how: float) -> list[Tokens]:
    return list(Breaths(**how).cut(tokens(text)))  # type: ignore[arg-type]


def said(segment: Tokens) -> str:
    return " ".join(word.text for word in segment.words)


def test_a_short_sentence_is_one_segment() -> None:
    assert cut("Nobody minded, of course.") == [tokens("Nobody minded, of course.")]


def test_the_first_is_short_and_each_at_most_half_as_long_again() -> None:
    segments = cut(LONG)
    sizes = [len(segment.ids) - 2 for segment in segments]
    assert len(sizes) > 3
    budget = 48.0
    for size in sizes[:-1]:
        assert 12 <= size <= budget
        budget *= 1.5
    assert said(segments[0]) == "When the rain had stopped,"


def test_cuts_lose_no_word_and_fall_behind_marks_or_before_joining_words() -> None:
    segments = cut(LONG)
    assert " ".join(map(said, segments)) == said(tokens(LONG))
    joints = {"and", "that", "until", "where", "for"}
    marks = {TOKENS[mark] for mark in ",;"}
    for one, other in itertools.pairwise(segments):
        assert one.ids[-2] in marks or other.words[0].text in joints
    for segment in segments:
        assert segment.ids[0] == segment.ids[-1] == 0
        assert TOKENS[" "] not in (segment.ids[1], segment.ids[-2])
        for word in segment.words:
            assert 0 < word.start < word.end <= len(segment.ids) - 1


def test_where_nobody_breathes_a_segment_ends_at_a_space_at_the_latest() -> None:
    segments = cut("bananas " * 60)
    assert max(len(segment.ids) for segment in segments) <= 162
    assert sum(len(segment.words) for segment in segments) == 60


def test_budgets_go_on_from_utterance_to_utterance() -> None:
    breaths = Breaths()
    first = list(breaths.cut(tokens(LONG)))
    again = list(breaths.cut(tokens(LONG)))
    assert len(again) < len(first)


def test_a_checkpoint_is_read_with_the_default_voices_lexicon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert english(tmp_path) is english(Path("nowhere"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("talker.text.english._ROOT", tmp_path)
    with pytest.raises(CheckpointError, match="lexicon"):
        english(tmp_path)
