"""A request as CSM takes it, and its prompt: earlier turns and its own text. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np

from talker.family.base import Prepared
from talker.models.csm.config import BEGIN_TEXT, END_CODE, END_TEXT
from talker.models.csm.config import Drawing as Defaults
from talker.models.shared.asked import chosen, plain_text
from talker.models.shared.tokenizer import TextTokenizer
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Piece

# Instead of a text id, where a frame stands.
FRAME: Final = -1
# The model often goes on in silence instead of ending: slow speech takes half of these.
_FRAMES_A_TOKEN: Final = 10
_FRAMES_BEYOND: Final = 25
_TEXT_SHARE, _PROMPT_SHARE = 8, 2


@dataclass(frozen=True)
class Drawing:
    """How a request's ids are drawn; `subtalker` is the depth transformer."""

    temperature: float
    top_k: int
    top_p: float
    subtalker_temperature: float
    subtalker_top_k: int
    subtalker_top_p: float

    @classmethod
    def of(cls, asked: Sampling, d: Defaults) -> Self:
        """The request's wishes over the checkpoint's."""
        return cls(
            chosen(asked.temperature, d.temperature * d.do_sample),
            chosen(asked.top_k, d.top_k),
            chosen(asked.top_p, d.top_p),
            chosen(
                asked.subtalker_temperature, d.depth_decoder_temperature * d.depth_decoder_do_sample
            ),
            chosen(asked.subtalker_top_k, d.depth_decoder_top_k),
            chosen(asked.subtalker_top_p, d.depth_decoder_top_p),
        )


class Turn(NamedTuple):
    """speaker: a number. codes: [frames, codebooks], None where the words are all there is."""

    speaker: int
    text: str
    codes: Array | None


class CsmPrompt(NamedTuple):
    """text: [positions] int64, FRAME where codes [positions, codebooks] int64 stand instead.

    frames: how many may follow. turns: so many of the positions are earlier turns.
    """

    text: Array
    codes: Array
    frames: int
    turns: int = 0


def turns_of(
    request: SpeechRequest, reference: Arrays | None, sounds: Sequence[Arrays | None]
) -> list[Turn]:
    """What was said before the request's text; sounds: what was derived of each turn's.

    A recording whose voice is to speak is the first turn, of the speaker who goes on. Raises
    BadRequest where nothing says what is spoken in it.
    """
    found = [
        Turn(turn.speaker, turn.text, None if sound is None else sound["codes"])
        for turn, sound in zip(request.turns, sounds, strict=True)
    ]
    if request.reference is None or reference is None:
        return found
    if not request.reference.text:
        raise BadRequest(
            "this model needs ref_text, what is said in the recording", param="ref_text"
        )
    return [Turn(request.speaker, request.reference.text, reference["codes"]), *found]


class CsmPrepared(Prepared):
    """A request whose text is read when it is complete: the model needs all of it at once."""

    def __init__(
        self,
        request: SpeechRequest,
        drawing: Drawing,
        turns: Sequence[Turn],
        tokenizer: TextTokenizer,
        codebooks: int,
        positions: int,
        most: int,
    ) -> None:
        """positions: of prompt and speech. most: frames, unless the request names a number."""
        self.request, self.drawing = request, drawing
        self._turns, self._tokenizer = turns, tokenizer
        self._codebooks, self._positions, self._most = codebooks, positions, most
        self._text: list[str] = []

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[CsmPrompt]:
        """The prompt, once `final`; raises TextTooLong, NothingToSay."""
        self._text += [plain_text(piece) for piece in pieces]
        if not final:
            return
        text = "".join(self._text).strip()
        if not any(c.isalnum() for c in text):
            raise NothingToSay("the text holds nothing that can be spoken", param="input")
        tokens = len(self._tokenizer.ids(text))
        if tokens > (most := self._positions // _TEXT_SHARE):
            raise TextTooLong(
                f"the text has {tokens} tokens, the model can speak {most} at once: split it",
                param="input",
            )
        said = Turn(self.request.speaker, text, None)
        ids, codes = self._laid_out([*self._turns, said])
        if len(ids) > (most := self._positions // _PROMPT_SHARE):
            raise TextTooLong(
                f"text and turns take {len(ids)} positions, the model has {most} for them",
                param="turns",
            )
        usual = min(self._most, _FRAMES_BEYOND + _FRAMES_A_TOKEN * tokens)
        limit = self.request.sampling.max_new_tokens or usual
        before = len(self._laid_out(self._turns)[0])
        yield CsmPrompt(ids, codes, min(limit, self._positions - len(ids)), before)

    def _laid_out(self, turns: Iterable[Turn]) -> tuple[Array, Array]:
        """Each turn's text and then, if it sounded, its frames and the end of them."""
        none = np.zeros((0, self._codebooks), np.int64)
        end = np.full((1, self._codebooks), END_CODE, np.int64)
        ids, codes = [np.zeros(0, np.int64)], [none]
        for turn in turns:
            said = self._tokenizer.ids(f"[{turn.speaker}]{turn.text}")
            sound = none if turn.codes is None else np.concatenate([turn.codes, end])
            ids += [np.array([BEGIN_TEXT, *said, END_TEXT]), np.full(len(sound), FRAME)]
            codes += [np.zeros((len(said) + 2, self._codebooks), np.int64), sound]
        return np.concatenate(ids), np.concatenate(codes).astype(np.int64)
