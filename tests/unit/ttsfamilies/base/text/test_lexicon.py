"""Words to phones, and what words change in each other."""

import gzip
from pathlib import Path

import pytest

from ttsfamilies.base.text.lexicon import LetterToPhone, Lexicon, LexiconError, derived


def test_characters_that_are_no_letters_are_silent(lexicon: Lexicon) -> None:
    assert lexicon.phones(["''"], 0) == ()


ENTRIES = {
    "innate": "ih0 n ey1 t",
    "basis": "b ey1 s ax0 s",
    "chef": "sh eh1 f",
    "judge": "jh ah1 jh",
    "rang": "r ae1 ng",
    "invite": "ih0 n v ay1 t",
}


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("innately", "ih0 n ey1 t l iy0"),
        ("chefs", "sh eh1 f s"),
        ("judges", "jh ah1 jh ix0 z"),
        ("invited", "ih0 n v ay1 dx ix0 d"),
        ("inviting", "ih0 n v ay1 dx ih0 ng"),
        ("ranged", None),
        ("basised", None),
        ("table", None),
    ],
)
def test_inflections_follow_their_stem(word: str, phones: str | None) -> None:
    known = {*ENTRIES, "range"}
    found = derived(word, ENTRIES.get, known.__contains__, "ix0")
    assert found == (phones and tuple(phones.split()))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not gzip",
        b"\x1f\x8b\x08\x00broken",
        gzip.compress(b'{"format": 2}'),
        gzip.compress(b"{}"),
    ],
    ids=["nothing", "no gzip", "broken", "format", "no format"],  # a compressed file has its time
)
def test_a_file_that_is_missing_damaged_or_of_another_format_is_a_lexicon_error(
    tmp_path: Path, content: bytes
) -> None:
    with pytest.raises(LexiconError):
        Lexicon.load(tmp_path)
    (tmp_path / "lexicon.json.gz").write_bytes(content)
    with pytest.raises(LexiconError):
        Lexicon.load(tmp_path)


@pytest.mark.parametrize("change", [{"roots": [0]}, {"nodes": [255]}, {"window": 0}])
def test_malformed_trees_are_refused(change: dict[str, object]) -> None:
    trees = {"window": 1, "roots": [0] * 26, "nodes": [255, 0, 0, 0], "outputs": [""]}
    with pytest.raises(ValueError):
        LetterToPhone({**trees, **change})
