"""The pronunciation lexicon: words to phones, homographs by their part of speech."""

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ttscommon.wire.errors import VoiceError
from ttsfamilies.base.text.heteronyms import choose
from ttsfamilies.base.text.letters import LetterToPhone
from ttsfamilies.base.text.pronunciations import PHONES
from ttsfamilies.base.text.suffixes import derived
from ttsfamilies.base.text.tagger import Tagger

FILE_NAME = "lexicon.json.gz"
_FORMAT = 1
_CACHE_LIMIT = 50_000
_PHRASE_END = "end"

Phones = tuple[str, ...]


class LexiconError(VoiceError):
    """The lexicon file is missing, damaged or of another format."""


class Lexicon:
    """Phones with stress digits ("hh ax0 l ow1") of any word.

    Looked up in this order: heteronyms by the words near them (in lexicons of this voice's kind,
    which have a reduced vowel), homographs by part of speech (or the end of a phrase), words of
    `pronunciations`, entries, regular inflections of entries, letter-to-phone trees. What was found
    is remembered, up to a limit.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        if content.get("format") != _FORMAT:
            raise LexiconError(f"lexicon format {content.get('format')!r} is not {_FORMAT}")
        self._words: Mapping[str, str] = content["words"]
        self._homographs: Mapping[str, Mapping[str, str]] = content["homographs"]
        self._known = frozenset(content["known"].split())
        self._reduced: str | None = content.get("reduced_vowel")
        self._letters = LetterToPhone(content["letters"])
        self._tagger = Tagger(content["tagger"], content["function_words"])
        self._cache: dict[str, Phones] = {}

    @classmethod
    def load(cls, voice_dir: Path) -> "Lexicon":
        """Read the lexicon of a voice folder. Raises LexiconError."""
        try:
            return cls(json.loads(gzip.decompress((voice_dir / FILE_NAME).read_bytes())))
        except (OSError, EOFError, zlib.error, ValueError, KeyError) as error:
            raise LexiconError(
                f"cannot load {voice_dir / FILE_NAME}, by which English is read: {error}"
            ) from error

    def knows(self, word: str) -> bool:
        """Whether a lower-case word is an English word on record."""
        return (
            word in self._words or word in PHONES or word in self._homographs or word in self._known
        )

    def phones(self, words: Sequence[str], index: int, *, last: bool = False) -> Phones:
        """Phones of `words[index]`, which is lower case, in its context.

        last: whether its phrase ends with it. Some function words have a full form there.
        """
        word = words[index]
        chosen = choose(words, index)
        if chosen is not None and self._reduced is not None:
            return chosen
        readings = self._homographs.get(word)
        if readings is not None:
            full = last and _PHRASE_END in readings
            tag = _PHRASE_END if full else self._tagger.tag(words, index)
            return tuple((readings.get(tag) or next(iter(readings.values()))).split())
        phones = self._cache.get(word)
        if phones is None:
            phones = self._pronounce(word)
            if len(self._cache) >= _CACHE_LIMIT:
                self._cache.clear()
            self._cache[word] = phones
        return phones

    def _pronounce(self, word: str) -> Phones:
        entry = PHONES.get(word) or self._words.get(word)
        if entry is not None:
            return tuple(entry.split())
        stem = self._words.get if self._reduced is None else self._stem
        found = derived(word, stem, self.knows, self._reduced)
        return found or self._letters.phones(word)

    def _stem(self, word: str) -> str | None:
        """An entry to be inflected; of several readings the verb's, as in "lived"."""
        readings = self._homographs.get(word)
        if readings is None:
            return self._words.get(word)
        return readings.get("v") or next(iter(readings.values()))
