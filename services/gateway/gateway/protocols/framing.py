"""A protocol's reports on a text, whatever carries its messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from gateway.audio import PcmBlock
from gateway.requests import Speech
from ttscommon.wire.errors import AntiphonError


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
