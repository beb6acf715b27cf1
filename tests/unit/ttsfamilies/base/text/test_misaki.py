"""Phones become misaki's symbols, one by one, and tokens keep track of words."""

import pytest

from ttsfamilies.base.text.frontend import EnglishFrontend, Utterance, Word
from ttsfamilies.base.text.ipa import CONSONANTS, VOWELS, Phone
from ttsfamilies.base.text.misaki import SILENCE, TOKENS, Tokens, in_parts, symbols_of, tokens_of

SYMBOL_OF = {token: symbol for symbol, token in TOKENS.items()}
PAUSE = Phone("pau", -1, False)


def _read(frontend: EnglishFrontend, text: str) -> str:
    ids = tokens_of(frontend.phones(text)).ids
    assert ids[0] == ids[-1] == SILENCE
    return "".join(SYMBOL_OF[token] for token in ids[1:-1])


def test_every_phone_of_the_frontend_has_tokens() -> None:
    phones = (*CONSONANTS, "dx", *(v + d for v in (*VOWELS, "ac", "ex", "ix") for d in "012"))
    assert all(symbol in TOKENS for phone in phones for symbol in symbols_of(phone))


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        *(("Yes, no.", ",."), ("Yes! No?", "!?"), ("Yes; no: so", ";:."), ("Yes (no) so!", ",!")),
        *(("Yes - no", "—."), ("Yes... no?!", ".?"), ('"Yes," no."', ",."), ("Yes", ".")),
    ],
)
def test_pauses_keep_their_punctuation(frontend: EnglishFrontend, text: str, marks: str) -> None:
    assert "".join(c for c in _read(frontend, text) if not c.isalpha() and c not in "ˈ ") == marks


def test_words_know_their_tokens(frontend: EnglishFrontend) -> None:
    assert _read(frontend, "Big cats, 25!") == "bˈɪɡ kˈæts, twˈɛnti fˈIv!"
    tokens = tokens_of(frontend.phones("Big cats, 25!"))
    spoken = {
        word.text: "".join(SYMBOL_OF[token] for token in tokens.ids[word.start : word.end])
        for word in tokens.words
    }
    assert spoken == {"Big": "bˈɪɡ", "cats,": "kˈæts", "25!": "twˈɛnti fˈIv"}


def test_a_contraction_is_one_word_of_tokens() -> None:
    word = [Phone(symbol, 0, symbol == "r") for symbol in ("r", "ih1", "k", "s")]
    phones = (PAUSE, *word, PAUSE)
    tokens = tokens_of(Utterance(phones, (Word("Rick's", 1, 5),), (".",)))
    assert tokens.words == (Word("Rick's", 1, 6),)
    assert TOKENS[" "] not in tokens.ids


def test_long_tokens_are_cut_between_words(frontend: EnglishFrontend) -> None:
    tokens = tokens_of(frontend.phones("One after another, the lamps are lit along the wall."))
    parts = list(in_parts(tokens, 20))
    assert len(parts) > 1
    assert all(len(part.ids) <= 20 for part in parts)
    assert all(part.ids[0] == part.ids[-1] == SILENCE for part in parts)
    said = [(word.text, part.ids[word.start : word.end]) for part in parts for word in part.words]
    assert said == [(word.text, tokens.ids[word.start : word.end]) for word in tokens.words]


def test_a_word_that_is_too_long_by_itself_is_cut_anywhere() -> None:
    tokens = Tokens((SILENCE, *range(20, 50), SILENCE), (Word("long", 1, 31),))
    parts = list(in_parts(tokens, 12))
    assert [i for part in parts for i in part.ids[1:-1]] == list(range(20, 50))
    assert [part.words for part in parts] == [(Word("long", 1, 11),), (), ()]
    assert list(in_parts(tokens, 32)) == [tokens]
