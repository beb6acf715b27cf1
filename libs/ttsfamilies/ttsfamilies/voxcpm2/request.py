"""A request as VoxCPM2 takes it: its voice, its text in passages, and their prompts. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple

import numpy as np

from ttscommon.wire.errors import NothingToSay, TextTooLong
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttscommon.wire.pieces import Piece
from ttsfamilies.base.lm.asked import chosen, plain_text
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.signs import letters, longest_s
from ttsfamilies.base.text.passages import Passages
from ttsfamilies.voxcpm2.tokenizer import CharacterTokenizer

AUDIO_STARTS, RECORDING_STARTS, RECORDING_ENDS = 101, 103, 104
# Spoken at once: beyond a minute or so the reference's speech degrades.
PASSAGE_TOKENS: Final = 160
# The reference's estimate of the longest speech, in patches.
_A_TOKEN, _BEYOND, _MOST = 6, 10, 2000
_PROMPT_SHARE: Final = 2
_ENDLESS: Final = 1 << 40
_GUIDANCE: Final = "cfg_value"
PARAMETERS: Final = (
    Parameter(
        *(_GUIDANCE, "number", 2.0, "How far patches are led towards text and voice."),
        *(0.0, 10.0),
    ),
)


class VoxcpmPassage(NamedTuple):
    """Text that is spoken at once. frames: the most that it may take. longest_s: see
    LmStream.
    """

    text: str
    frames: int
    longest_s: float


@dataclass(frozen=True)
class Layout:
    """A passage's positions: ids [positions] int64, patches [positions, latents, values], of which
    those that are `audio` [positions] int64 count. common: leading positions that do not depend
    on the text. frames: the most that may follow.
    """

    id: Array
    patch: Array
    audio: Array
    common: int
    frames: int
    longest_s: float

    @property
    def length(self) -> int:
        return len(self.id)


class Clone(NamedTuple):
    """A recording's patches [patches, latents, values]. said: what is said in it, if speech is to
    go on from it; otherwise it stands by itself before the text.
    """

    patches: Array
    said: str


def clone_of(request: SpeechRequest, reference: Arrays | None) -> Clone | None:
    """Of a request's recording; None without one."""
    asked = request.reference
    if reference is None or asked is None:
        return None
    if asked.text and not asked.x_vector_only:
        return Clone(reference["prompt"], asked.text)
    return Clone(reference["reference"], "")


class VoxcpmPrepared(Prepared):
    """A request whose text is read passage by passage: the model needs all of one at once."""

    def __init__(
        self,
        request: SpeechRequest,
        tokenizer: CharacterTokenizer,
        clone: Clone | None,
        patch: tuple[int, int],
        positions: int,
        most: int | None = None,
    ) -> None:
        """patch: its latents and their values. positions: of prompt and speech. most: patches of a
        passage, for tests of the engine.
        """
        self.request, self.clone, self._tokenizer = request, clone, tokenizer
        self.adapter: int | None = None
        self.guidance = float(completed(PARAMETERS, request.extra_params)[_GUIDANCE])
        self.deviation = chosen(request.sampling.temperature, 1.0)
        self.most_frames = request.sampling.max_new_tokens or _ENDLESS
        self._shape, self._positions, self._most = patch, positions, most or _MOST
        self._passages = Passages(lambda text: len(tokenizer.ids(text)), PASSAGE_TOKENS)
        self._spoken = False

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[VoxcpmPassage]:
        """Passages that are certain; raises TextTooLong, NothingToSay."""
        for text in self._passages.feed("".join(map(plain_text, pieces)), final=final):
            if any(c.isalnum() for c in text):
                self._spoken = True
                yield self._passage(text)
        if final and not self._spoken:
            raise NothingToSay("the text holds nothing that can be spoken", param="input")

    def _passage(self, text: str) -> VoxcpmPassage:
        tokens = len(self._tokenizer.ids(self._designed(text)))
        frames = min(_A_TOKEN * tokens + _BEYOND, _MOST, self._most)
        passage = VoxcpmPassage(text, frames, longest_s(letters(text)))
        if (length := self.laid_out(passage).length) > (most := self._positions // _PROMPT_SHARE):
            raise TextTooLong(
                f"voice and a sentence take {length} positions, the model has {most} for them:"
                " split it",
                param="input",
            )
        return passage

    def _designed(self, text: str) -> str:
        """With the voice's description before it, if there is one."""
        asked = self.request.instructions
        return f"({asked}){text}" if asked else text

    def laid_out(
        self, passage: VoxcpmPassage, first: VoxcpmPassage | None = None, said: Array | None = None
    ) -> Layout:
        """A passage's prompt.

        first, said: the request's first passage and its patches, from which a later one goes on:
        that is what keeps a voice which no recording holds.
        """
        text, clone = self._designed(passage.text), self.clone
        if clone is None and first is not None and said is not None:
            before = f"{self._designed(first.text)} "
            found = self._continued(before, passage.text, said, passage)
            if found.length <= self._positions // _PROMPT_SHARE:
                return found
        if clone is not None and clone.said:
            return self._continued(clone.said, text, clone.patches, passage)
        ids = (*self._tokenizer.ids(text), AUDIO_STARTS)
        if clone is None:
            return self._layout(passage, 0, ids)
        parts = ((RECORDING_STARTS,), clone.patches, (RECORDING_ENDS,), ids)
        return self._layout(passage, len(clone.patches) + 2, *parts)

    def _continued(self, before: str, text: str, patches: Array, passage: VoxcpmPassage) -> Layout:
        """A text of which the part `before` is spoken in `patches` already."""
        ids = (*self._tokenizer.ids(f"{before}{text}"), AUDIO_STARTS)
        # The last token of a text may be another one where more follows.
        shared = zip(self._tokenizer.ids(before)[:-1], ids, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], shared))
        return self._layout(passage, common, ids, patches)

    def _layout(self, passage: VoxcpmPassage, common: int, *parts: Sequence[int] | Array) -> Layout:
        """Ids and patches, one behind the other."""
        each = zip(*(_positions(part, self._shape) for part in parts), strict=True)
        ids, patches, audio = (np.concatenate(arrays) for arrays in each)
        frames = max(1, min(passage.frames, self._positions - len(ids)))
        return Layout(ids, patches, audio, common, frames, passage.longest_s)


def _positions(part: Sequence[int] | Array, patch: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Ids, patches, and whether those count, of a part of a prompt that is either."""
    count = len(part)
    if isinstance(part, np.ndarray):
        return np.zeros(count, np.int64), part, np.ones(count, np.int64)
    blank = np.zeros((count, *patch), np.float32)
    return np.array(part, np.int64), blank, np.zeros(count, np.int64)
