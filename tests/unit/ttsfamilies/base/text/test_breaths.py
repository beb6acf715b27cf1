"""Segments are cut where a person would breathe; the first is short and the next grow."""

from __future__ import annotations

import itertools

from tests.unit.ttsfamilies.kokoro.tiny import english
from ttsfamilies.base.text.frontend import Breaths, Spoken
from ttsfamilies.kokoro.request import spoken

LONG = (
    "When the rain had stopped, we went out into the garden, where the apples lay in the wet grass"
    " and the birds were already at work on them; my sister picked up the best ones, and I carried"
    " the basket until it was so heavy that we had to stop and rest beside the old wall for a while"
)


def phones(text: str) -> Spoken:
    return spoken(english()["en-US"](text, ()))


def cut(text: str, **how: float) -> list[Spoken]:
    return list(Breaths(**how).cut(phones(text)))  # type: ignore[arg-type]


def said(segment: Spoken) -> str:
    return " ".join(word.text for word in segment.words)


def test_a_short_sentence_is_one_segment() -> None:
    assert cut("Nobody minded, of course.") == [phones("Nobody minded, of course.")]


def test_the_first_is_short_and_each_at_most_half_as_long_again() -> None:
    segments = cut(LONG)
    sizes = [len(segment.symbols) for segment in segments]
    assert len(sizes) > 3
    budget = 48.0
    for size in sizes[:-1]:
        assert 12 <= size <= budget
        budget *= 1.5
    assert said(segments[0]) == "When the rain had stopped,"


def test_cuts_lose_no_word_and_fall_behind_marks_or_before_joining_words() -> None:
    segments = cut(LONG)
    assert " ".join(map(said, segments)) == said(phones(LONG))
    joints = {"and", "that", "until", "where", "for"}
    for one, other in itertools.pairwise(segments):
        assert one.symbols[-1] in ",;" or other.words[0].text in joints
    for segment in segments:
        assert segment.symbols == segment.symbols.strip()
        for word in segment.words:
            assert 0 <= word.start < word.end <= len(segment.symbols)


def test_where_nobody_breathes_a_segment_ends_at_a_space_at_the_latest() -> None:
    segments = cut("bananas " * 60)
    assert max(len(segment.symbols) for segment in segments) <= 160
    assert sum(len(segment.words) for segment in segments) == 60


def test_budgets_go_on_from_utterance_to_utterance() -> None:
    breaths = Breaths()
    first = list(breaths.cut(phones(LONG)))
    again = list(breaths.cut(phones(LONG)))
    assert len(again) < len(first)
