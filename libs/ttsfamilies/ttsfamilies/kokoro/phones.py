"""From an utterance to Kokoro's phones: the project's own frontend for English, which speaks this
alphabet, and for other languages eSpeak NG where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, TypeAlias

from ttscommon.wire.errors import BadRequest
from ttsfamilies.base.text.breaths import Spoken
from ttsfamilies.base.text.frontend import EnglishFrontend, Given, Utterance, Word
from ttsfamilies.base.text.locales import british
from ttsfamilies.base.text.misaki import SYMBOLS, tokens_of
from ttsfamilies.kokoro.sizes import LANGUAGES
from ttsfamilies.piper.phones import Espeak, Sentence

Read: TypeAlias = Callable[[str, tuple[Given, ...]], Utterance]
"""Raises NothingToSay."""

_ENGLISH: Final = {"en-US": False, "en-GB": True}
# eSpeak's own names of the languages that the published package asks it for.
_ESPEAK: Final = {"es": "es", "fr": "fr-fr", "hi": "hi", "it": "it", "pt-BR": "pt-br"}
# Sounds of two letters that have one of their own here.
_JOINED: Final = {
    "aɪ": "I",
    "aʊ": "W",
    "dz": "ʣ",
    "dʒ": "ʤ",
    "eɪ": "A",
    "oʊ": "O",
    "əʊ": "Q",
    "ss": "S",
    "ts": "ʦ",
    "tʃ": "ʧ",
    "ɔɪ": "Y",
}


def ways_of(english: EnglishFrontend) -> Mapping[str, Read]:
    """How texts are read on this machine, by language."""
    found: dict[str, Read] = {
        tag: partial(_english, english, british) for tag, british in _ENGLISH.items()
    }
    if Espeak.installed():
        found |= {tag: Espeak(voice) for tag, voice in _ESPEAK.items()}
    return {tag: found[tag] for tag in LANGUAGES.values() if tag in found}


def way_of(language: str, ways: Collection[str]) -> str:
    """Which of the ways reads a language; raises BadRequest."""
    own = ("en-GB" if british(language) else language, language.partition("-")[0])
    for tag in own:
        if found := [way for way in ways if way == tag or way.partition("-")[0] == tag]:
            return found[0]
    raise BadRequest(f"this model reads {', '.join(ways)}", param="language")


def _english(
    frontend: EnglishFrontend, british: bool, text: str, given: tuple[Given, ...]
) -> Utterance:
    return frontend.phones(text, given, british)


def spoken(utterance: Utterance) -> Spoken:
    """The phones of an utterance, each a character, and its words among them."""
    if isinstance(utterance, Sentence):
        return _joined(utterance)
    tokens = tokens_of(utterance)
    symbols = "".join(SYMBOLS[token] for token in tokens.ids[1:-1])
    words = tuple(w._replace(start=w.start - 1, end=w.end - 1) for w in tokens.words)
    return Spoken(symbols, words)


def _joined(sentence: Sentence) -> Spoken:
    """eSpeak's phones in this alphabet."""
    symbols, places, at = "", [0], 0
    while at < len(sentence.symbols):
        two = "".join(sentence.symbols[at : at + 2])
        size = 2 if two in _JOINED else 1
        places += [len(symbols)] * (size - 1)
        symbols += _JOINED.get(two, sentence.symbols[at].replace("-", ""))
        places.append(len(symbols))
        at += size

    def placed(word: Word) -> Word:
        return word._replace(start=places[word.start], end=places[word.end])

    return Spoken(symbols, tuple(map(placed, sentence.words)))
