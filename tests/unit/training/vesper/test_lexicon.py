"""misaki's readings become the frontend's phones."""

from pathlib import Path
from typing import Any

import pytest

from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.lexicon import FILE_NAME
from ttsfamilies.base.text.misaki import symbols_of
from voicetrain.vesper import lexicon

FLAT = str.maketrans("ɾʔ", "Tt")


@pytest.mark.parametrize(
    ("symbols", "phones"),
    [
        *(("həlˈO", "hh ax0 l ow1"), ("lˈɪɾᵊl", "l ih1 dx ex0 l"), ("hɜɹ", "hh ur0")),
        *(("bˈɜɹd", "b er1 d"), ("ˈOvəɹ", "ow1 v er0"), ("ɹˈOzᵻz", "r ow1 z ix0 z")),
        *(("bˈʌʔn", "b ah1 t n"), ("ˌɪntəɹnˈæʃᵊnəl", "ih2 n t er0 n ae1 sh ex0 n ax0 l")),
        ("hˈɜɹTɪŋ", "hh er1 dx ih0 ng"),
    ],
)
def test_symbols_become_phones_and_the_symbols_they_came_from(symbols: str, phones: str) -> None:
    assert lexicon.phones_of(symbols) == phones.split()
    assert "".join(map(symbols_of, phones.split())) == symbols.translate(FLAT)
    assert lexicon.phones_of("x" + symbols) is None


@pytest.mark.parametrize(
    ("word", "marked", "one"),
    [
        ("catfish", "k ae1 t f ih1 sh", "k ae1 t f ih2 sh"),
        ("nashality", "n ey1 sh ae1 l ih0 t iy0", "n ey2 sh ae1 l ih0 t iy0"),
        ("cat", "k ae1 t", "k ae1 t"),
    ],
)
def test_one_stress_stays_primary(word: str, marked: str, one: str) -> None:
    assert " ".join(lexicon.with_one_primary_stress(marked.split(), word)) == one


@pytest.mark.parametrize(
    ("plain", "flapped"),
    [
        ("s ih1 t iy0", "s ih1 dx iy0"),
        ("ax0 t ae1 k", "ax0 t ae1 k"),
        ("m ih1 s t er0", "m ih1 s t er0"),
        ("p aa1 r t iy0", "p aa1 r dx iy0"),
    ],
)
def test_a_t_is_flapped_before_an_unstressed_vowel_only(plain: str, flapped: str) -> None:
    assert " ".join(lexicon.flapped(plain.split())) == flapped


READ = {
    "of": "ah0 v",
    "What is it for?": "w ah2 t ih0 z ih0 t f ao0 r",
    "it is his": "ih0 t ih0 z hh ih2 z",
    "his cat": "hh ih0 z k ae1 t",
    "to go to it": "t ax0 g ow2 t uh0 ih0 t",
    "wanted": "w aa1 n t ix0 d",
    "lived, waited": "l ih1 v d pau w ey1 dx ix0 d",
    "John's": "jh aa1 n z",
    "zzcat": "z ae1 dx ih0 k",
    "unguessable": "ah0 n g eh1 s ax0 b ex0 l",
}


def test_words_are_read_as_the_teacher_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of misaki's words, letters and those that begin as the ones that are read."""
    pytest.importorskip("hibari", reason="the teacher belongs to the training environment")
    begin = {word[:3].lower() for text in READ for word in text.split()}
    flite = {
        "format": 1,
        "words": {"aaberg": "aa1 b er0 g", "zzcat": "z ae1 t ih0 k", "wanted": "w aa1 n t"},
        "known": "unguessable",
        "letters": {"window": 4, "roots": [0] * 26, "nodes": [255, 0, 0, 0], "outputs": [""]},
        "tagger": [["n"]],
        "function_words": {},
    }

    def entries(name: str) -> dict[str, Any]:
        return {w: e for w, e in dictionary(name).items() if len(w) == 1 or w[:3].lower() in begin}

    dictionary = lexicon.dictionary
    monkeypatch.setattr(lexicon, "dictionary", entries)
    content = lexicon.build(flite, unknown=lambda _: "ʌnɡˈɛsəbᵊl")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        lexicon.write(content, tmp_path / name / FILE_NAME)
    assert len({(tmp_path / name / FILE_NAME).read_bytes() for name in "ab"}) == 1
    frontend = EnglishFrontend.load(tmp_path / "a")
    found = {text: [phone.symbol for phone in frontend.phones(text).phones[1:-1]] for text in READ}
    assert found == {text: phones.split() for text, phones in READ.items()}
