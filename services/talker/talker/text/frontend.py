"""The cantor voice's English frontend: an utterance in, phones with word boundaries out."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from talker.text import postlexical
from talker.text.lexicon import Lexicon
from talker.text.normalize import PAUSE_MARK, Normalizer
from talker.text.symbols import PAUSE, Phone
from ttscommon.errors import NothingToSay

_PAUSE = Phone(PAUSE, -1, False)


class Word(NamedTuple):
    """A word as written, punctuation included; its phones are `phones[start:end]`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Utterance:
    """What the talker says: phones from pause to pause, and the written words they belong to.

    `Phone.word` indexes `words`. A written word may be said as several ("2024"); each of those
    begins with an initial phone. `marks` are the punctuation that the pauses stand for, the first
    pause aside: one of `? ! . ; : , —`, or "" at the end of a text that has none.
    """

    phones: tuple[Phone, ...]
    words: tuple[Word, ...]
    marks: tuple[str, ...] = ()


class EnglishFrontend:
    """Deterministic, without state but for caches of what was looked up."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._normalizer = Normalizer(lexicon.knows)

    @classmethod
    def load(cls, voice_dir: Path) -> "EnglishFrontend":
        """Read the voice's lexicon. Raises talker.text.lexicon.LexiconError."""
        return cls(Lexicon.load(voice_dir))

    def phones(self, utterance: str) -> Utterance:
        """Phones of one utterance. Raises NothingToSay when no word is in it, nothing else."""
        builder = _Builder(self._lexicon)
        for written in self._normalizer.words(utterance):
            for word in written.spoken:
                if word == PAUSE_MARK:
                    builder.pause(PAUSE_MARK)
                else:
                    builder.say(word, written.text)
            builder.close_word()
            if written.pause:
                builder.pause(written.mark)
        return builder.build()


class _Builder:
    """Collects spoken words, phrase by phrase."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._spoken: list[str] = []
        self._owners: list[int] = []
        self._breaks: dict[int, str] = {}
        self._texts: list[str] = []
        self._open = False

    def say(self, word: str, text: str) -> None:
        if not self._open:
            self._texts.append(text)
            self._open = True
        self._spoken.append(word)
        self._owners.append(len(self._texts) - 1)

    def close_word(self) -> None:
        self._open = False

    def pause(self, mark: str) -> None:
        self._breaks[len(self._spoken)] = mark

    def build(self) -> Utterance:
        if not self._spoken:
            raise NothingToSay("the text holds no word that can be spoken", param="input")
        phones = [_PAUSE]
        marks: list[str] = []
        spans: dict[int, tuple[int, int]] = {}
        start = 0
        for end in sorted({*self._breaks, len(self._spoken)}):
            for index, symbols in enumerate(self._phrase(start, end), start):
                owner = self._owners[index]
                first = spans.get(owner, (len(phones), 0))[0]
                begins = not self._spoken[index].startswith("'")
                phones += [Phone(s, owner, begins and n == 0) for n, s in enumerate(symbols)]
                spans[owner] = (first, len(phones))
            if end > start:
                phones.append(_PAUSE)
                marks.append(self._breaks.get(end, ""))
            start = end
        words = tuple(Word(self._texts[owner], *span) for owner, span in spans.items())
        return Utterance(tuple(phones), words, tuple(marks))

    def _phrase(self, start: int, end: int) -> list[tuple[str, ...]]:
        phones = [
            self._lexicon.phones(self._spoken, index, last=index == end - 1)
            for index in range(start, end)
        ]
        return postlexical.join(self._spoken[start:end], phones)
