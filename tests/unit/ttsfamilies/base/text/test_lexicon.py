"""Words to phones, and what words change in each other."""

import gzip
from pathlib import Path

import pytest

from ttsfamilies.base.text.lexicon import (
    LetterToPhone,
    Lexicon,
    LexiconError,
    derived,
    post_lexical,
)


@pytest.mark.parametrize(
    ("text", "index", "phones"),
    [
        ("hello", 0, "hh ax0 l ow1"),
        ("the record was broken", 1, "r eh1 k er0 d"),
        ("to record it", 1, "r ax0 k ao1 r d"),
        ("blorfing", 0, "b l ao1 r f ih0 ng"),
        ("''", 0, ""),
    ],
)
def test_words_homographs_and_unknown_words_have_phones(
    lexicon: Lexicon, text: str, index: int, phones: str
) -> None:
    assert " ".join(lexicon.phones(text.split(), index)) == phones


ENTRIES = {
    "innate": "ih0 n ey1 t",
    "basis": "b ey1 s ax0 s",
    "chef": "sh eh1 f",
    "rang": "r ae1 ng",
    "invite": "ih0 n v ay1 t",
}


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("innately", "ih0 n ey1 t l iy0"),
        ("chefs", "sh eh1 f s"),
        ("invited", "ih0 n v ay1 t ax0 d"),
        ("inviting", "ih0 n v ay1 t ih0 ng"),
        ("ranged", None),
        ("basised", None),
        ("table", None),
    ],
)
def test_inflections_follow_their_stem(word: str, phones: str | None) -> None:
    known = {*ENTRIES, "range"}
    found = derived(word, ENTRIES.get, known.__contains__)
    assert found == (phones and tuple(phones.split()))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((None, "cannot load"), (b"", "cannot load"), (b"not gzip", "cannot load")),
        *(
            (b"\x1f\x8b\x08\x00broken", "cannot load"),
            (gzip.compress(b'{"format": 2}'), "format 2"),
        ),
    ],
)
def test_a_file_that_is_missing_damaged_or_of_another_format_is_a_lexicon_error(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "lexicon.json.gz").write_bytes(content)
    with pytest.raises(LexiconError, match=said):
        Lexicon.load(tmp_path)


# Letter "c" says k, or s before "e"; all other letters but "e" say nothing.
LEAF = 255
TREES = {
    "window": 1,
    "roots": [0, 0, 1, 0, 4, *[0] * 21],
    "nodes": [LEAF, 0, 0, 0, 1, ord("e"), 2, 3, LEAF, 2, 0, 0, LEAF, 1, 0, 0, LEAF, 3, 0, 0],
    "outputs": ["", "k", "s", "y uw1"],
}


def test_trees_ask_about_the_neighbours_and_what_is_no_letter_is_silent() -> None:
    letters = LetterToPhone(TREES)
    assert letters.phones("cce") == ("k", "s", "y", "uw1")
    assert letters.phones("-c1é") == ("k",)


@pytest.mark.parametrize("change", [{"roots": [0]}, {"nodes": [LEAF]}, {"window": 0}])
def test_malformed_trees_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        LetterToPhone({**TREES, **change})


PHONES = {
    "the": ("dh", "ax0"),
    "apple": ("ae1", "p", "ax0", "l"),
    "dog": ("d", "ao1", "g"),
    "cat": ("k", "ae1", "t"),
    "boss": ("b", "ao1", "s"),
    "it": ("ih1", "t"),
    "you": ("y", "uw1"),
    "'s": ("z",),
    "'d": ("d",),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the apple", "dh iy0 ae1 p ax0 l"),
        ("the dog", "dh ax0 d ao1 g"),
        ("dog 's", "d ao1 g z"),
        ("cat 's", "k ae1 t s"),
        ("boss 's", "b ao1 s ax0 z"),
        ("it 'd", "ih1 t ax0 d"),
        ("you 'd", "y uw1 d"),
        ("'s", "z"),
    ],
)
def test_neighbours_change_the_phones(text: str, expected: str) -> None:
    words = text.split()
    joined = post_lexical(words, [PHONES[word] for word in words])
    assert " ".join(phone for phones in joined for phone in phones) == expected
