"""Texts become Kokoro's phones: English by the project's own frontend, others by eSpeak NG."""

import pytest

from tests.unit.ttsfamilies.kokoro.tiny import english
from ttsfamilies.base.talker.options import LEXICON
from ttsfamilies.base.text.frontend import EnglishFrontend, Word
from ttsfamilies.kokoro.request import spoken, ways_of
from ttsfamilies.kokoro.synthetic import VOCABULARY
from ttsfamilies.piper.phones import Espeak, Sentence


def test_english_is_in_the_published_alphabet() -> None:
    found = spoken(english()["en-US"]("The quick brown fox.", ()))
    assert found.symbols == "ðə kwˈɪk bɹˈWn fˈɑks."
    assert set(found.symbols) <= VOCABULARY.keys()
    assert [found.symbols[w.start : w.end] for w in found.words] == [
        *("ðə", "kwˈɪk", "bɹˈWn", "fˈɑks")
    ]


def test_sounds_of_two_letters_become_one_and_words_keep_their_places() -> None:
    symbols = (*"mˈutʃo", " ", *"ˈaʊto", ".")
    words = (Word("mucho", 0, 6), Word("auto", 7, 12))
    found = spoken(Sentence((), words, (), symbols))
    assert found.symbols == "mˈuʧo ˈWto."
    assert [found.symbols[w.start : w.end] for w in found.words] == ["mˈuʧo", "ˈWto"]


def test_other_languages_are_there_where_espeak_is(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = EnglishFrontend.load(LEXICON)
    for there, tags in (
        (False, ["en-US", "en-GB"]),
        (True, ["en-US", "en-GB", "es", "fr", "hi", "it", "pt-BR"]),
    ):
        monkeypatch.setattr(Espeak, "installed", staticmethod(lambda there=there: there))
        assert list(ways_of(frontend)) == tags


@pytest.mark.skipif(not Espeak.installed(), reason="eSpeak NG is not installed")
@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("es", "Buenos días, ¿cómo estás?"),
        ("fr", "Bonjour, ça va bien?"),
        ("it", "Ciao, come stai?"),
        ("pt-BR", "Bom dia, tudo bem?"),
        ("hi", "नमस्ते, आप कैसे हैं?"),
    ],
)
def test_espeaks_phones_are_symbols_of_the_published_vocabulary(tag: str, text: str) -> None:
    found = spoken(ways_of(EnglishFrontend.load(LEXICON))[tag](text, ()))
    assert len(found.words) == len(text.split())
    strange = [symbol for symbol in found.symbols if symbol not in VOCABULARY]
    assert len(strange) <= 2, strange
    assert len(found.symbols) > len(found.words) * 2
