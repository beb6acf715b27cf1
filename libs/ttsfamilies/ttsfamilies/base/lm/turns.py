"""Turns of text and sound: prompts of what was said, and the books of an answer. No torch."""

from __future__ import annotations

import codecs
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np

from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import FLAG, SILENT, Array, Arrays, Field
from ttscommon.wire.messages import SaidText, SpeechRequest
from ttsfamilies.base.lm.request import Drawing, WholeText, limited, nothing_to_say, speakable, tell
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.talker.blocks import keys
from ttsfamilies.base.talker.lmstream import ENDLESS, LmStream
from ttsfamilies.base.talker.streams import SlotWriter, Taken

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


# The books of an answer: ids of a language model, some of which are sound and the others text.
#
# A frame is a code of sound, and with it travel the ids that came between it and the frame before
# it (docs/decisions/spoken-turns.md). They are the device's alone until the frame is whole: a
# stream whose cache was taken away draws them again, with the same noise. Where too many come
# without sound, or the answer ends behind some, they travel with a frame of silence.


TOKEN: Final = "token"
BETWEEN: Final = "between"
MOST_BETWEEN: Final = 32
NO_ID: Final = -1
REPLAY: Final[Mapping[str, Field]] = {BETWEEN: Field((MOST_BETWEEN,), "i4"), SILENT: FLAG}


class AnswerIds(NamedTuple):
    """Of a vocabulary: `codes` ids of sound, from `first` on, and those that end an answer."""

    first: int
    codes: int
    ends: tuple[int, ...]


def frame_of(ids: AnswerIds) -> dict[str, Field]:
    """What a vocoder reads of a frame."""
    return {TOKEN: Field((), "i2", ids.codes)}


class Asked(Protocol):
    """A request whose answer is drawn so."""

    @property
    def request(self) -> SpeechRequest: ...
    @property
    def drawing(self) -> Drawing: ...


class AnswerStream(LmStream):
    """A text of one passage, of which ids are counted; see LmStream. Subclasses say what a prompt's
    positions hold; of a prompt, a question, they say the `keys` (see TalkerStream.prefix).
    """

    replay: ClassVar[Mapping[str, Field]] = REPLAY

    def __init__(
        self,
        asked: Asked,
        ids: AnswerIds,
        spelled: Callable[[Sequence[int]], bytes],
        rate_hz: float,
    ) -> None:
        """spelled: ids between frames as UTF-8, without those that are no text."""
        super().__init__()
        self._asked = asked
        self.frame = frame_of(ids)
        self._ids, self._spelled, self._rate_hz = ids, spelled, rate_hz
        self._heard = self._characters = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def prefix(self) -> Sequence[bytes]:
        return self._passages[0].keys()

    @property
    def extent(self) -> int:
        """Most answers are a fraction of what they may be."""
        if self._at >= len(self._passages):
            return 0
        return self.length + self.passage.frames // 4

    @property
    def answered(self) -> Array:
        """Ids of all frames so far, [ids] int64."""
        books = self.books
        sounds = np.where(books[SILENT] > 0, NO_ID, self._ids.first + books[TOKEN].astype(np.int64))
        ids = np.concatenate([books[BETWEEN], sounds[:, None]], 1).reshape(-1)
        return ids[ids != NO_ID]

    def _replayed(self) -> int:
        return len(self.answered)

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self._said()

    def begin(self, write: SlotWriter) -> None:
        write(BETWEEN, np.full(MOST_BETWEEN, NO_ID, np.int64))
        write("step", self._done)
        write("most", self.passage.frames)
        for name in ("drawn", "filled"):
            write(name, 0)
        tell(write, self._asked.request.seed, self._asked.drawing)

    def take(self, count: int) -> Taken:
        return super().take(count)._replace(said=self._said())

    def _said(self) -> tuple[SaidText, ...]:
        """Text of the frames taken last; a character comes with the last of its ids."""
        found = []
        for at in range(self._heard, self._taken):
            ids = [one for one in self.books[BETWEEN][at].tolist() if one != NO_ID]
            last = self._at > 0 and at == self._frames - 1
            if text := self._utf8.decode(self._spelled(ids), final=last):
                found.append(SaidText(self._characters, text, at / self._rate_hz))
                self._characters += len(text)
        self._heard = self._taken
        return tuple(found)
