import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_cases import examples
from ttscommon.wire.errors import NothingToSay
from ttsfamilies.base.text.frontend import EnglishFrontend, Word
from ttsfamilies.base.text.misaki import TOKENS, tokens_of

SYMBOL_OF = {token: symbol for symbol, token in TOKENS.items()}
TEACHER = Path(__file__).parent / "teacher_phones.txt"


def symbols(frontend: EnglishFrontend, text: str) -> str:
    return " ".join(phone.symbol for phone in frontend.phones(text).phones)


def test_phones_run_from_pause_to_pause(frontend: EnglishFrontend) -> None:
    assert symbols(frontend, "The apple, please.") == ("pau dh iy0 ae1 p ex0 l pau p l iy1 z pau")


def test_words_know_their_phones(frontend: EnglishFrontend) -> None:
    utterance = frontend.phones("Two cats, 25!")
    assert utterance.words == (
        Word("Two", 1, 3, "two", 0, 3),
        Word("cats,", 3, 7, "cats", 4, 9),
        Word("25!", 8, 17, "twenty five", 10, 13),
    )
    for index, word in enumerate(utterance.words):
        assert {phone.word for phone in utterance.phones[word.start : word.end]} == {index}


def test_every_spoken_word_begins_with_an_initial_phone(frontend: EnglishFrontend) -> None:
    initials = [phone.symbol for phone in frontend.phones("Rick's 25").phones if phone.initial]
    assert initials == ["r", "t", "f"]


@pytest.mark.parametrize("text", ["", "  ", "🎉", "...", "你好"])
def test_text_without_words_is_nothing_to_say(frontend: EnglishFrontend, text: str) -> None:
    with pytest.raises(NothingToSay):
        frontend.phones(text)


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


def test_a_sentence_takes_less_than_a_millisecond(frontend: EnglishFrontend) -> None:
    sentences = [line.split("\t")[0] for line in TEACHER.read_text("utf-8").splitlines()]
    seconds = []
    for _ in range(3):
        started = time.process_time()
        for sentence in sentences:
            frontend.phones(sentence)
        seconds.append((time.process_time() - started) / len(sentences))
    assert min(seconds) < 1e-3
