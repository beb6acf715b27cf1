"""Utterances to phones, and where a person would breathe."""

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.random_cases import examples
from tests.unit.ttsfamilies.kokoro.tiny import english
from tests.waits import grows_linearly
from ttscommon.wire.errors import NothingToSay
from ttsfamilies.base.text.frontend import Breaths, EnglishFrontend, Spoken, Word
from ttsfamilies.base.text.misaki import TOKENS, tokens_of
from ttsfamilies.kokoro.request import spoken

SYMBOL_OF = {token: symbol for symbol, token in TOKENS.items()}
TEACHER = Path(__file__).parent / "teacher_phones.txt"


def test_words_know_their_phones(frontend: EnglishFrontend) -> None:
    utterance = frontend.phones("Two cats, 25!")
    assert utterance.words == (
        Word("Two", 1, 3, "two", 0, 3),
        Word("cats,", 3, 7, "cats", 4, 9),
        Word("25!", 8, 17, "twenty five", 10, 13),
    )
    for index, word in enumerate(utterance.words):
        assert {phone.word for phone in utterance.phones[word.start : word.end]} == {index}


def test_agrees_with_the_teacher(frontend: EnglishFrontend) -> None:
    """What hibari itself read for these sentences; it reduces words by their neighbours."""
    said, same = 0, 0
    for line in TEACHER.read_text("utf-8").splitlines():
        text, symbols = line.split("\t")
        ours = "".join(SYMBOL_OF[i] for i in tokens_of(frontend.phones(text)).ids[1:-1]).split(" ")
        theirs = symbols.split(" ")
        said += len(theirs)
        same += sum(a == b for a, b in zip(ours, theirs, strict=False))
    assert said > 1700
    assert same / said > 0.85


@examples(300)
@given(st.text(max_size=200))
def test_any_text_has_phones_or_nothing_to_say(frontend: EnglishFrontend, text: str) -> None:
    try:
        utterance = frontend.phones(text)
    except NothingToSay:
        return
    first, *_, last = utterance.phones
    assert (first.symbol, last.symbol) == ("pau", "pau")
    assert all(token in SYMBOL_OF for token in tokens_of(utterance).ids[1:-1])
    owners = [phone.word for phone in utterance.phones if phone.word >= 0]
    assert owners == sorted(owners)
    assert all(word.start < word.end for word in utterance.words)


def test_time_grows_linearly(frontend: EnglishFrontend) -> None:
    sentence = "The train to the north leaves from platform nine in five minutes. "
    assert grows_linearly(lambda count: frontend.phones(sentence * count), 30)


LONG = (
    "When the rain had stopped, we went out into the garden, where the apples lay in the wet grass"
    " and the birds were already at work on them; my sister picked up the best ones, and I carried"
    " the basket until it was so heavy that we had to stop and rest beside the old wall for a while"
)


def phones(text: str) -> Spoken:
    return spoken(english()["en-US"](text, ()))


def said(segment: Spoken) -> str:
    return " ".join(word.text for word in segment.words)


def test_the_first_is_short_and_each_at_most_half_as_long_again_until_the_next_utterance() -> None:
    breaths = Breaths()
    segments = list(breaths.cut(phones(LONG)))
    sizes = [len(segment.symbols) for segment in segments]
    assert len(sizes) > 3
    budget = 48.0
    for size in sizes[:-1]:
        assert 12 <= size <= budget
        budget *= 1.5
    assert said(segments[0]) == "When the rain had stopped,"
    assert len(list(breaths.cut(phones(LONG)))) < len(segments)


def test_cuts_lose_no_word_and_fall_behind_marks_or_before_joining_words() -> None:
    segments = list(Breaths().cut(phones(LONG)))
    assert " ".join(map(said, segments)) == said(phones(LONG))
    joints = {"and", "that", "until", "where", "for"}
    for one, other in itertools.pairwise(segments):
        assert one.symbols[-1] in ",;" or other.words[0].text in joints
    for segment in segments:
        assert segment.symbols == segment.symbols.strip()
        for word in segment.words:
            assert 0 <= word.start < word.end <= len(segment.symbols)


def test_where_nobody_breathes_a_segment_ends_at_a_space_at_the_latest() -> None:
    segments = list(Breaths().cut(phones("bananas " * 60)))
    assert max(len(segment.symbols) for segment in segments) <= 160
    assert sum(len(segment.words) for segment in segments) == 60
