"""Turns of text and sound: prompts of what was said. No torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

import numpy as np

from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.request import Drawing, WholeText, limited, nothing_to_say, speakable, tell
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.talker.blocks import keys
from ttsfamilies.base.talker.lmstream import ENDLESS, LmStream
from ttsfamilies.base.talker.streams import SlotWriter

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


Laid = tuple[Array, Array]
"""Positions: ids, and codes of frames; see TurnsPrompt."""


def joined(parts: Iterable[Laid]) -> Laid:
    """One behind the other."""
    ids, codes = zip(*parts, strict=True)
    return np.concatenate(ids), np.concatenate(codes)


class TurnsPrepared(WholeText):
    """See WholeText. usual: frames that slow speech of a token takes, and frames beyond. most: of
    a text, unless the request names a number.
    """

    usual: ClassVar[tuple[int, int]]
    most: ClassVar[int] = ENDLESS

    def __init__(
        self,
        request: SpeechRequest,
        drawing: Drawing,
        turns: Sequence[EncodedTurn],
        tokenizer: TextTokenizer,
        codebooks: int,
        positions: int,
    ) -> None:
        """positions: of prompt and speech."""
        self.request, self.drawing = request, drawing
        self._turns, self._tokenizer = turns, tokenizer
        self._codebooks, self._positions = codebooks, positions

    def prompt(self, before: Laid, own: Laid, tokens: int) -> TurnsPrompt:
        """Of what was said before, and of a text of so many tokens."""
        ids, codes = joined((before, own))
        most = min(self.most_frames(tokens), self._positions - len(ids))
        return TurnsPrompt(ids, codes.astype(np.int64), most, len(before[0]))

    def most_frames(self, tokens: int) -> int:
        """What a text of so many tokens may come to, or the request's own limit."""
        a_token, beyond = self.usual
        usual = min(self.most, beyond + a_token * tokens)
        return self.request.sampling.max_new_tokens or usual

    def said(self, ids: Sequence[int]) -> Laid:
        """Positions of text alone."""
        return np.array(ids, np.int64), np.zeros((len(ids), self._codebooks), np.int64)

    def sounded(self, codes: Array) -> Laid:
        """Positions of frames [frames, codebooks]."""
        return np.full(len(codes), FRAME), codes


class DialoguePrepared(TurnsPrepared):
    """A text of one prompt, behind the turns before it."""

    def prompts(self, text: str) -> tuple[TurnsPrompt]:
        if not speakable(text):
            raise nothing_to_say()
        tokens = len(self._tokenizer.ids(text))
        limited(tokens, self._positions // _TEXT_SHARE, "the text takes")
        found = self.prompt(*self.laid_out(text), tokens)
        share = self._positions // _PROMPT_SHARE
        limited(found.length, share, "text and turns take", "leave out the oldest", "turns")
        return (found,)

    @abstractmethod
    def laid_out(self, text: str) -> tuple[Laid, Laid]:
        """Of what was said before, and of the text."""


class TurnsStream(LmStream):
    """A text of one passage, behind the turns before it; see LmStream. A frame is its codes."""

    replay: ClassVar[Mapping[str, Field]] = MappingProxyType({})

    def __init__(self, prepared: TurnsPrepared, frame: Mapping[str, Field]) -> None:
        super().__init__()
        self.prepared, self.frame = prepared, frame

    def begin(self, write: SlotWriter) -> None:
        tell(write, self.prepared.request.seed, self.prepared.drawing)

    def prefix(self) -> Sequence[bytes]:
        return self._passages[0].keys()

    @property
    def codes(self) -> Array:
        """Of all frames so far, [frames, codebooks]."""
        return self.books["codes"].astype(np.int64)

    def positions(self, branch: int) -> Arrays:
        prompt: TurnsPrompt = self.passage
        return {
            "text": np.concatenate([prompt.text, np.full(self.frames, FRAME)]),
            "codes": np.concatenate([prompt.codes, self.codes]),
        }
