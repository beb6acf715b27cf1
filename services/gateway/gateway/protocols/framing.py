"""A protocol's reports on a text, whatever carries its messages: audio, timed words, one object."""

from __future__ import annotations

import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Final

import msgspec

from gateway.audio import PcmBlock
from gateway.requests import Speech
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import WordTime


class Framing(ABC):
    """One utterance's messages: over HTTP parts of a body, elsewhere frames or events.

    `media_type`: of a body in this framing; empty if it is that of its audio. `blames`: the field
    that a text without a sound is an error of; None where it is a good end, with `silence_s` of
    silence, because some clients take an end without audio for a failure and try again. `drops`:
    what has not left is not sent once the utterance has failed. `tells`: its end says that the
    model lost its text; elsewhere that is a failure behind the last audio.
    """

    media_type: ClassVar[str] = ""
    blames: str | None = None
    silence_s: float = 0.0
    drops: ClassVar[bool] = True
    tells: ClassVar[bool] = False

    def parts(self, piece: PcmBlock) -> Iterable[PcmBlock]:
        """A piece, cut where one message cannot hold it."""
        return (piece,)

    @abstractmethod
    def audio(self, speech: Speech, piece: PcmBlock) -> str | bytes:
        """The message for a piece; empty if there is nothing to say yet."""

    def waits(self, speech: Speech, lacking: AntiphonError) -> None:
        """Tell that its audio waits for workers, where the protocol has a word for it."""
        del speech, lacking

    def last(self, speech: Speech, samples: int) -> str | bytes:
        """What goes behind the last audio, of which there are so many samples in all."""
        return b""

    def end(self, speech: Speech) -> str | bytes:
        """What follows the last audio of a complete utterance."""
        return b""

    def failed(self, speech: Speech, error: AntiphonError) -> str | bytes:
        """What tells that it ends too early."""
        return b""


class Plain(Framing):
    """Audio and nothing else."""

    def __init__(self, blames: str | None = None, silence_s: float = 0.0) -> None:
        self.blames = blames
        self.silence_s = silence_s

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        return piece.data


class WholeJson(Framing):
    """Audio leaves as it comes; only what is told beside it waits for its end.

    field: what the audio is called.
    """

    media_type = "application/json"
    blames = "input"
    field: ClassVar[str]

    def __init__(self) -> None:
        self._head = b'{"' + self.field.encode() + b'":"'
        self._rest = b""

    @abstractmethod
    def beside(self) -> dict[str, Any]:
        """The other fields."""

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        data = self._rest + piece.data
        whole = len(data) - len(data) % 3  # three bytes are four characters
        self._rest = data[whole:]
        return self._encoded(data[:whole])

    def end(self, speech: Speech) -> bytes:
        return self._encoded(self._rest) + b'",' + msgspec.json.encode(self.beside())[1:]

    def _encoded(self, data: bytes) -> bytes:
        head, self._head = self._head, b""
        return head + base64.b64encode(data)


# Markup is no part of what is read.
_MARKUP: Final = re.compile(r"<[^>]*>|\\[{}]|[<>]")


class WrittenText:
    """What is written between the words of a text, which are timed one after another.

    text: the whole text, where it is known; else one space stands between two words.
    """

    def __init__(self, text: str | None) -> None:
        self._text = text
        self._said = 0
        self._begun = False

    def before(self, word: WordTime) -> str:
        """What is written in front of a word, and was not told yet; the word is told now."""
        plain = " " if self._begun else ""
        self._begun = True
        text, said = self._text, self._said
        if text is None:
            return plain
        if word.first < said or text[word.first : word.last] != word.word:
            self._text = ""  # its places are not known: from here on words are all there is
            return plain
        self._said = word.last
        between = text[said : word.first]
        return without_markup(between) or (plain if between else "")

    def rest(self) -> str:
        """What is written behind the last word; nothing where the text is not known."""
        return without_markup((self._text or "")[self._said :])


def without_markup(text: str) -> str:
    """What of a text is read."""
    return _MARKUP.sub("", text)


def timed(word: WordTime) -> dict[str, Any]:
    """Its times; what it is read as, and its place in the request's text, where they are known."""
    told: dict[str, Any] = {
        "word": word.word,
        "start_s": round(word.start_s, 4),
        "end_s": round(word.end_s, 4),
    }
    if word.spoken:
        told["spoken"] = word.spoken
    if word.first >= 0:
        told |= {"start_char": word.first, "end_char": word.last}
    return told
