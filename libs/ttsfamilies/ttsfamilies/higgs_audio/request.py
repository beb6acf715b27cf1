"""A request as Higgs Audio takes it, and its prompt: earlier turns and its own text. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np

from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttsfamilies.base.lm.codes import counts, is_over
from ttsfamilies.base.lm.request import Drawing
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.lm.turns import (
    FRAME,
    DialoguePrepared,
    EncodedTurn,
    Laid,
    TurnsStream,
    joined,
)
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.higgs_audio.net import HiggsConfig, HiggsDefaults

# The longest window that a slot remembers.
MOST_REMEMBERED: Final = 16
_SYSTEM: Final = "Generate audio following instruction."


@dataclass(frozen=True)
class HiggsDrawing(Drawing):
    """How a request's codes are drawn.

    window: a code that stands `repeats` times in as many rows of its codebook is drawn again, from
    all ids and at temperature 1 (repetition-aware sampling; VALL-E 2, Chen et al., 2024).
    """

    window: int = 0
    repeats: int = 1

    @classmethod
    def of(cls, request: SpeechRequest, d: HiggsDefaults) -> Self:
        """The request's settings over the checkpoint's."""
        told = completed(parameters(d), request.extra_params)
        window, repeats = int(told["ras_win_len"]), int(told["ras_win_max_num_repeat"])
        return cls(d.temperature, d.top_k, d.top_p, window, repeats).with_asked(request.sampling)


def parameters(d: HiggsDefaults) -> tuple[Parameter, ...]:
    """Settings of its own."""
    rows = "Rows in which a codebook's codes are counted; 0 counts none."
    often = "A code that was counted so often is drawn again."
    return (
        Parameter("ras_win_len", "integer", d.ras_win_len, rows, 0, MOST_REMEMBERED),
        Parameter(
            "ras_win_max_num_repeat", "integer", d.ras_win_max_num_repeat, often, 1, MOST_REMEMBERED
        ),
    )


class Control(NamedTuple):
    """A token that was added to the tokenizer, by its name there."""

    name: str


Part = str | Control | Array
"""Text, a control token, or rows of codes."""


class HiggsPrepared(DialoguePrepared):
    """See DialoguePrepared."""

    usual = (20, 50)

    def __init__(
        self,
        request: SpeechRequest,
        drawing: HiggsDrawing,
        turns: Sequence[EncodedTurn],
        tokenizer: TextTokenizer,
        config: HiggsConfig,
        positions: int,
    ) -> None:
        super().__init__(request, drawing, turns, tokenizer, config.codebooks, positions)
        self.config = config
        speakers = {turn.speaker for turn in turns} | {request.speaker}
        self._tags = len(speakers) > 1
        check(turns, config)

    def most_frames(self, tokens: int) -> int:
        """Rows."""
        return super().most_frames(tokens) + self.config.delay_pattern.most

    def laid_out(self, text: str) -> tuple[Laid, Laid]:
        layout = _third if self.config.third else _second
        before, own = layout(self, text)
        return self._positions_of(before), self._positions_of(own)

    def tagged(self, speaker: int, text: str) -> str:
        """The words, and where several speak, whose they are."""
        return f"[SPEAKER{speaker}] {text.strip()}" if self._tags else text.strip()

    @property
    def turns(self) -> Sequence[EncodedTurn]:
        """What was said before."""
        return self._turns

    def rows(self, codes: Array) -> Array:
        """A recording's codes [frames, codebooks], delayed."""
        c, frames = self.config, codes.astype(np.int64)
        return c.delay_pattern.rows(frames, c.begin, c.end)

    def row_of(self, id: int) -> Array:
        """[1, codebooks]."""
        return np.full((1, self.config.codebooks), id, np.int64)

    def _positions_of(self, parts: Sequence[Part]) -> Laid:
        found = [self.said(())]
        for part in self._joined(parts):
            if isinstance(part, str):
                found.append(self.said(self._tokenizer.ids(part)))
            elif isinstance(part, Control):
                found.append(self.said((self._tokenizer.added[part.name],)))
            else:
                found.append(self.sounded(part))
        return joined(found)

    def _joined(self, parts: Sequence[Part]) -> Iterator[Part]:
        """Text that stands together is split into tokens together, with the names of control
        tokens that the tokenizer has not.
        """
        text = ""
        for part in parts:
            if isinstance(part, Control) and part.name not in self._tokenizer.added:
                text += part.name
            elif isinstance(part, str):
                text += part
            else:
                yield from (text,) * bool(text)
                yield part
                text = ""
        yield from (text,) * bool(text)


def check(turns: Sequence[EncodedTurn], config: HiggsConfig) -> None:
    """Raises BadRequest for what the model cannot go on from."""
    if any(turn.codes is None for turn in turns):
        raise BadRequest("this model needs the recording of every turn", param="turns")
    if config.third and len(turns) > 1:
        raise BadRequest("this model goes on from one recording", param="turns")


BEGIN: Final = Control("<|begin_of_text|>")
END_TURN: Final = Control("<|eot_id|>")
BEGIN_SOUND: Final = Control("<|audio_out_bos|>")
END_SOUND: Final = Control("<|audio_eos|>")


def _role(name: str) -> list[Part]:
    return [Control("<|start_header_id|>"), name, Control("<|end_header_id|>"), "\n\n"]


def _second(request: HiggsPrepared, text: str) -> tuple[list[Part], list[Part]]:
    """A chat: the system's instruction, each recording's words and sound, and what is to be said.

    A first row in which no codebook has begun is the model's own in the reference, and always so.
    """
    config, scene = request.config, request.request.instructions.strip()
    before: list[Part] = [BEGIN, *_role("system"), _SYSTEM]
    if scene:
        marks = Control("<|scene_desc_start|>"), Control("<|scene_desc_end|>")
        before += ["\n\n", marks[0], f"\n{scene}\n", marks[1]]
    before.append(END_TURN)
    first, last = request.row_of(config.begin), request.row_of(config.end)
    for turn in request.turns:
        assert turn.codes is not None
        before += [*_role("user"), request.tagged(turn.speaker, turn.text), END_TURN]
        sound = request.rows(np.concatenate([first, turn.codes, last]))
        before += [*_role("assistant"), BEGIN_SOUND, sound, END_SOUND, END_TURN]
    said = request.tagged(request.request.speaker, text)
    return before, [*_role("user"), said, END_TURN, *_role("assistant"), BEGIN_SOUND, first]


def _third(request: HiggsPrepared, text: str) -> tuple[list[Part], list[Part]]:
    """A recording's words and sound, and what is to be said."""
    before: list[Part] = [Control("<|tts|>")]
    for turn in request.turns:
        assert turn.codes is not None
        before += [Control("<|ref_text|>"), turn.text.strip()]
        before += [Control("<|ref_audio|>"), request.rows(turn.codes)]
    return before, [Control("<|text|>"), text, Control("<|audio|>")]


class HiggsStream(TurnsStream):
    """See TalkerStream. A frame of the log is a row."""

    prepared: HiggsPrepared

    @property
    def _config(self) -> HiggsConfig:
        return self.prepared.config

    @property
    def _ends(self) -> Array:
        """[rows, codebooks] bool: where a codebook is over."""
        return self.codes == self._config.end

    def _resume(self) -> None:
        super()._resume()
        if is_over(self._ends, self._config.delay_pattern):
            self._next()

    def begin(self, write: SlotWriter) -> None:
        recent = self._recent()
        write("codes", recent[-1])
        write("recent", recent.reshape(-1))
        for name, value in counts(self._ends, self._config.delay_pattern).items():
            write(name, value)
        super().begin(write)

    def _recent(self) -> Array:
        """The last rows [MOST_REMEMBERED, codebooks], those of recordings too."""
        heard = self.passage.codes[self.passage.text == FRAME]
        none = np.full((MOST_REMEMBERED, self._config.codebooks), self._config.begin, np.int64)
        return np.concatenate([none, heard, self.codes])[-MOST_REMEMBERED:]
