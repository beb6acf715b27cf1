"""A request as Fish Audio S2 takes it: a conversation, of which every turn is spoken. No torch.

The system's turn has the voice. Each batch of the text is a user's turn, and its speech the
assistant's, which later batches go on from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from ttscommon.wire.errors import TextTooLong
from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttsfamilies.base.lm.request import Drawing, nothing_to_say, speakable, tell
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.lm.turns import FRAME, EncodedTurn, Laid, TurnsPrepared, TurnsPrompt, joined
from ttsfamilies.base.talker.lmstream import SequenceStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.fish_s2.config import WINDOW, FishConfig

PARAMETERS: Final = (
    Parameter(
        "ras_win_len",
        "integer",
        WINDOW,
        "Frames in which a code is sought that is then drawn again; 0: none.",
        0,
        WINDOW,
    ),
    Parameter(
        "chunk_length",
        "integer",
        200,
        "Bytes of speakers' turns that are spoken together.",
        100,
        1000,
    ),
)
# A text may take one of so many positions: the others are its speech, at an ordinary pace.
_TEXT_SHARE: Final = 8
_MOST_SPEAKERS: Final = 5
# What a text may say beside words; every other control token is read as it is written.
_LEGAL: Final = re.compile(r"<\|(?:speaker:\d+|phoneme_\w+)\|>")
_SPEAKER: Final = re.compile(r"(?=<\|speaker:\d+\|>)")
_PLAIN: Final = "convert the provided text to speech"
_LIKE: Final = f"{_PLAIN} reference to the following:\n\nText:\n"
_SOUNDS: Final = "\n\nSpeech:\n"
_BEGIN, _END, _VOICE = "<|im_start|>", "<|im_end|>", "<|voice|>"


@dataclass(frozen=True)
class FishDrawing(Drawing):
    """window: frames that repetition is looked for in."""

    window: int = 0

    @classmethod
    def of(cls, request: SpeechRequest) -> Self:
        """The request's settings over the defaults of the authors' server."""
        told = completed(PARAMETERS, request.extra_params)
        return cls(0.8, 30, 0.8, int(told["ras_win_len"])).with_asked(request.sampling)


class FishPrepared(TurnsPrepared):
    """See TurnsPrepared. A prompt is a batch; `turns` of it is the voice."""

    usual = (12, 43)
    most = 2048

    def __init__(
        self,
        request: SpeechRequest,
        voice: Sequence[EncodedTurn],
        tokenizer: TextTokenizer,
        config: FishConfig,
        positions: int,
    ) -> None:
        """positions: of the whole conversation."""
        told = voice, tokenizer, config.codebooks, positions
        super().__init__(request, FishDrawing.of(request), *told)
        self.config, self.positions = config, positions
        self._bytes = int(completed(PARAMETERS, request.extra_params)["chunk_length"])

    def prompts(self, text: str) -> list[TurnsPrompt]:
        if not speakable(_LEGAL.sub("", text)):
            raise nothing_to_say()
        system = self._system()
        texts = [self._spoken(part) for part in batches(text, self._bytes)]
        self._check(len(system[0]), sum(map(len, texts)))
        found = [self._batch(system, texts[0], begins=True)]
        return found + [self._batch(self.said(()), each, begins=False) for each in texts[1:]]

    def _check(self, voice: int, tokens: int) -> None:
        """Raises TextTooLong for what would not fit with its speech."""
        left = self.positions - voice
        if left < self.positions // 2:
            raise TextTooLong(
                f"the voice's recording takes {voice} of {self.positions} positions, and may take"
                " half of them: use a shorter one, or give the model a larger KV cache",
                param="voice",
            )
        if tokens > (most := left // _TEXT_SHARE):
            raise TextTooLong(
                f"the text has {tokens} tokens, the model can speak {most} at once: split it, or"
                " give the model a larger KV cache",
                param="input",
            )

    def _batch(self, before: Laid, text: Sequence[int], *, begins: bool) -> TurnsPrompt:
        own = self.said(
            (
                *([] if begins else [self._control(_END), *self._ids("\n")]),
                *self._role("user"),
                *text,
                self._control(_END),
                *self._ids("\n"),
                *self._role("assistant"),
                self._control(_VOICE),
            )
        )
        return self.prompt(before, own, len(text))

    def _system(self) -> Laid:
        """Each part of it is split into tokens by itself."""
        end = (self._control(_END), *self._ids("\n"))
        role = self._role("system")
        if not self._turns:
            return self.said((*role, *self._ids(_PLAIN), *end))
        words = "\n".join(tagged(turn.speaker, turn.text) for turn in self._turns)
        told = (*role, *self._ids(_LIKE), *self._spoken(words), *self._ids(_SOUNDS))
        sound = np.concatenate([turn.codes for turn in self._turns if turn.codes is not None])
        return joined((self.said(told), self.sounded(sound), self.said(end)))

    def _role(self, name: str) -> tuple[int, ...]:
        return (self._control(_BEGIN), *self._ids(f"{name}\n"))

    def _control(self, name: str) -> int:
        return self._tokenizer.added[name]

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.ids(text)

    def _spoken(self, text: str) -> list[int]:
        """Of a text that may have tags of speakers and phones, as far as they are tokens."""
        found: list[int] = []
        begin = 0
        for tag in _LEGAL.finditer(text):
            if tag[0] in self._tokenizer.added:
                found += [*self._ids(text[begin : tag.start()]), self._control(tag[0])]
                begin = tag.end()
        return found + self._ids(text[begin:])


def tagged(speaker: int, text: str) -> str:
    """A transcript, and whose it is."""
    return text if text.startswith("<|speaker:") else f"<|speaker:{speaker}|>{text}"


def batches(text: str, most_bytes: int) -> list[str]:
    """A text in turns of its speakers, a few of which are spoken together: five, or as many as
    `most_bytes` hold. One without tags is one batch.
    """
    found: list[list[str]] = []
    size = 0
    for turn in (part.strip() for part in _SPEAKER.split(text) if _LEGAL.sub("", part).strip()):
        size += len(turn.encode())
        if not found or len(found[-1]) == _MOST_SPEAKERS or size > most_bytes:
            found.append([])
            size = len(turn.encode())
        found[-1].append(turn)
    return ["\n".join(turns) for turns in found]


# Instead of a code that repetition is looked for among.
NO_CODE: Final = -1


class FishStream(SequenceStream):
    """See SequenceStream. A passage is a batch."""

    def __init__(self, prepared: FishPrepared) -> None:
        c = prepared.config
        self.frame = MappingProxyType({"codes": Field((c.codebooks,), "i2", c.codes)})
        super().__init__(prepared.positions)
        self._prepared = prepared

    @property
    def extent(self) -> int:
        """Of the whole conversation. Most speech takes half of the frames that it may come to."""
        return sum(batch.length + batch.frames // 2 for batch in self._passages)

    def prefix(self) -> Sequence[bytes]:
        return self._passages[0].keys()

    def positions(self, branch: int) -> Arrays:
        """Of each batch so far, its own and its frames'."""
        text, codes = [], []
        for batch, frames in self.laid_out("codes"):
            text += [batch.text, np.full(len(frames), FRAME)]
            codes += [batch.codes, frames.astype(np.int64)]
        return {"text": np.concatenate(text), "codes": np.concatenate(codes)}

    def begin(self, write: SlotWriter) -> None:
        spoken = self.spoken["codes"]
        write("codes", spoken[-1] if len(spoken) else np.zeros(self._prepared.config.codebooks))
        write("recent", self._recent(spoken))
        write("made", len(spoken))
        write("frame", self.frames)
        tell(write, self._prepared.request.seed, self._prepared.drawing)

    @staticmethod
    def _recent(spoken: Array) -> Array:
        """Semantic codes of the batch's last frames, the very first one never."""
        none = np.full(WINDOW, NO_CODE, np.int64)
        return np.concatenate([none, spoken[1:, 0]])[-WINDOW:]
