"""Turns of text and sound as one prompt: what was said before, and then a request's own text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

import numpy as np

from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.texts import WholeText, limited, nothing_to_say, speakable
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.talker.blocks import keys
from ttsfamilies.base.talker.lmstream import LmStream

# Instead of a text id, where a frame stands.
FRAME: Final = -1
_TEXT_SHARE, _PROMPT_SHARE = 8, 2


class EncodedTurn(NamedTuple):
    """speaker: a number. codes: [frames, codebooks], None where the words are all there is."""

    speaker: int
    text: str
    codes: Array | None


class TurnsPrompt(NamedTuple):
    """text: [positions] int64, FRAME where codes [positions, codebooks] int64 stand instead.

    frames: how many may follow. turns: so many of the positions are earlier turns.
    """

    text: Array
    codes: Array
    frames: int
    turns: int = 0

    @property
    def length(self) -> int:
        """Positions."""
        return len(self.text)

    def keys(self) -> Sequence[bytes]:
        """Of turns: a voice's, or those of a conversation that goes on."""
        return keys((self.text, self.codes), self.turns)


def turns_of(
    request: SpeechRequest, reference: Arrays | None, sounds: Sequence[Arrays | None]
) -> list[EncodedTurn]:
    """What was said before the request's text; sounds: what was derived of each turn's.

    A recording whose voice is to speak is the first turn, of the speaker who goes on. Raises
    BadRequest where nothing says what is spoken in it.
    """
    found = [
        EncodedTurn(turn.speaker, turn.text, None if sound is None else sound["codes"])
        for turn, sound in zip(request.turns, sounds, strict=True)
    ]
    if request.reference is None or reference is None:
        return found
    if not request.reference.text:
        raise BadRequest(
            "this model needs ref_text, what is said in the recording", param="ref_text"
        )
    return [EncodedTurn(request.speaker, request.reference.text, reference["codes"]), *found]


class TurnsPrepared(WholeText):
    """See WholeText."""

    def __init__(
        self,
        request: SpeechRequest,
        turns: Sequence[EncodedTurn],
        tokenizer: TextTokenizer,
        codebooks: int,
        positions: int,
    ) -> None:
        """positions: of prompt and speech."""
        self.request = request
        self._turns, self._tokenizer = turns, tokenizer
        self._codebooks, self._positions = codebooks, positions

    def prompts(self, text: str) -> tuple[TurnsPrompt]:
        if not speakable(text):
            raise nothing_to_say()
        tokens = len(self._tokenizer.ids(text))
        limited(tokens, self._positions // _TEXT_SHARE, "the text takes")
        before, own = self.laid_out(text)
        ids, codes = (np.concatenate(pair) for pair in zip(before, own, strict=True))
        share = self._positions // _PROMPT_SHARE
        limited(len(ids), share, "text and turns take", "leave out the oldest", "turns")
        most = min(self.most_frames(tokens), self._positions - len(ids))
        return (TurnsPrompt(ids, codes.astype(np.int64), most, len(before[0])),)

    @abstractmethod
    def laid_out(self, text: str) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Positions of what was said before, and of the text: ids and codes, see TurnsPrompt."""

    @abstractmethod
    def most_frames(self, tokens: int) -> int:
        """What a text of so many tokens may come to, or the request's own limit."""

    def said(self, ids: Sequence[int]) -> tuple[Array, Array]:
        """Positions of text alone."""
        return np.array(ids, np.int64), np.zeros((len(ids), self._codebooks), np.int64)

    def sounded(self, codes: Array) -> tuple[Array, Array]:
        """Positions of frames [frames, codebooks]."""
        return np.full(len(codes), FRAME), codes


class TurnsStream(LmStream):
    """A text of one passage, behind the turns before it; see LmStream. A frame is its codes."""

    replay: ClassVar[Mapping[str, Field]] = MappingProxyType({})

    def __init__(self, frame: Mapping[str, Field]) -> None:
        super().__init__()
        self.frame = frame

    def prefix(self) -> Sequence[bytes]:
        prompt: TurnsPrompt = self._passages[0]
        return prompt.keys()

    @property
    def codes(self) -> Array:
        """Of all frames so far, [frames, codebooks]."""
        return self.books["codes"].astype(np.int64)

    def positions(self, branch: int) -> Arrays:
        del branch
        prompt: TurnsPrompt = self.passage
        return {
            "text": np.concatenate([prompt.text, np.full(self.frames, FRAME)]),
            "codes": np.concatenate([prompt.codes, self.codes]),
        }
