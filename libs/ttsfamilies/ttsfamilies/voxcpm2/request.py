"""A request as VoxCPM2 takes it: its voice, its text in passages, and their prompts. No torch.

The log says of each patch whether its passage ends with it, which no patch tells by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import ADAPTER, Parameter, completed
from ttsfamilies.base.lm.request import PassagesText, chosen, limited
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.talker.blocks import keys
from ttsfamilies.base.talker.lmstream import ENDLESS, PASSAGE, LmStream, letters, longest_s
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.base.text.segment import Passages

_SPACE: Final = "\u2581"
_UNKNOWN: Final = "<unk>"


class CharacterTokenizer(TextTokenizer):
    """tokenizer.json; tokens of several Chinese characters are told as one token each."""

    def __init__(self, plain: TextTokenizer) -> None:
        super().__init__(plain._tokenizer, plain.added)
        known: dict[str, int] = self._tokenizer.get_vocab()
        unknown = known.get(_UNKNOWN, 0)
        self.size = 1 + max((*known.values(), *plain.added.values()))
        self._apart = {
            id: tuple(known.get(character, unknown) for character in token)
            for whole, id in known.items()
            if (token := whole.replace(_SPACE, "")) in known and _chinese(token)
        }

    @classmethod
    def load(cls, checkpoint: Path) -> CharacterTokenizer:
        """Raises CheckpointError."""
        return cls(TextTokenizer.load(checkpoint))

    def ids(self, text: str) -> list[int]:
        return [part for id in super().ids(text) for part in self._apart.get(id, (id,))]


def _chinese(token: str) -> bool:
    """Several characters, and no others."""
    return len(token) > 1 and all("\u4e00" <= character <= "\u9fff" for character in token)


AUDIO_STARTS, RECORDING_STARTS, RECORDING_ENDS = 101, 103, 104
# Spoken at once: beyond a minute or so the reference's speech degrades.
PASSAGE_TOKENS: Final = 160
# The reference's estimate of the longest speech, in patches.
_A_TOKEN, _BEYOND, _MOST = 6, 10, 2000
_PROMPT_SHARE: Final = 2
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
class PassageLayout:
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


class VoxcpmPrepared(PassagesText):
    """See PassagesText."""

    def __init__(
        self,
        request: SpeechRequest,
        tokenizer: CharacterTokenizer,
        clone: Clone | None,
        patch: tuple[int, int],
        positions: int,
    ) -> None:
        """patch: its latents and their values. positions: of prompt and speech."""
        self.request, self.clone, self._tokenizer = request, clone, tokenizer
        self.adapter: int | None = None
        self.guidance = float(completed(PARAMETERS, request.extra_params)[_GUIDANCE])
        self.deviation = chosen(request.sampling.temperature, 1.0)
        self.most_frames = request.sampling.max_new_tokens or ENDLESS
        self._shape, self._positions = patch, positions
        self.passages = Passages(lambda text: len(tokenizer.ids(text)), PASSAGE_TOKENS)

    def prompt(self, text: str) -> VoxcpmPassage:
        """Its positions depend on what was said before; see `laid_out`."""
        tokens = len(self._tokenizer.ids(self._designed(text)))
        frames = min(_A_TOKEN * tokens + _BEYOND, _MOST)
        passage = VoxcpmPassage(text, frames, longest_s(letters(text)))
        most = self._positions // _PROMPT_SHARE
        limited(self.laid_out(passage).length, most, "voice and a sentence take")
        return passage

    def _designed(self, text: str) -> str:
        """With the voice's description before it, if there is one."""
        asked = self.request.instructions
        return f"({asked}){text}" if asked else text

    def laid_out(
        self, passage: VoxcpmPassage, first: VoxcpmPassage | None = None, said: Array | None = None
    ) -> PassageLayout:
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

    def _continued(
        self, before: str, text: str, patches: Array, passage: VoxcpmPassage
    ) -> PassageLayout:
        """A text of which the part `before` is spoken in `patches` already."""
        ids = (*self._tokenizer.ids(f"{before}{text}"), AUDIO_STARTS)
        # The last token of a text may be another one where more follows.
        shared = zip(self._tokenizer.ids(before)[:-1], ids, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], shared))
        return self._layout(passage, common, ids, patches)

    def _layout(
        self, passage: VoxcpmPassage, common: int, *parts: Sequence[int] | Array
    ) -> PassageLayout:
        """Ids and patches, one behind the other."""
        each = zip(*(_positions(part, self._shape) for part in parts), strict=True)
        ids, patches, audio = (np.concatenate(arrays) for arrays in each)
        frames = max(1, min(passage.frames, self._positions - len(ids)))
        return PassageLayout(ids, patches, audio, common, frames, passage.longest_s)


def _positions(part: Sequence[int] | Array, patch: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Ids, patches, and whether those count, of a part of a prompt that is either."""
    count = len(part)
    if isinstance(part, np.ndarray):
        return np.zeros(count, np.int64), part, np.ones(count, np.int64)
    blank = np.zeros((count, *patch), np.float32)
    return np.array(part, np.int64), blank, np.zeros(count, np.int64)


LAST: Final = MappingProxyType({"last": Field((), "u1", 2)})


class VoxcpmStream(LmStream):
    """See TalkerStream."""

    def __init__(self, prepared: VoxcpmPrepared, patch: Field) -> None:
        super().__init__(prepared.most_frames)
        self._prepared, self.frame = prepared, {"patch": patch, **LAST}
        self._laid: tuple[int, PassageLayout] | None = None

    @property
    def passage(self) -> Any:
        """The one that is spoken, laid out behind what was said before it."""
        if self._laid is None or self._laid[0] != self._at:
            self._laid = self._at, self._layout()
        return self._laid[1]

    def _layout(self) -> PassageLayout:
        told = self._passages[self._at]
        if not self._at:
            return self._prepared.laid_out(told)
        said = self.books["patch"][self.books[PASSAGE] == 0]
        return self._prepared.laid_out(told, self._passages[0], said if len(said) else None)

    def prefix(self) -> Sequence[bytes]:
        laid, adapter = self.passage, self._prepared.request.adapter
        whole = b"" if adapter is None else bytes.fromhex(adapter.digest)
        return keys((laid.id, laid.audio, laid.patch), laid.common, whole)

    def _resume(self) -> None:
        super()._resume()
        if self.books["last"][-1]:
            self._next()

    def positions(self, branch: int) -> Arrays:
        laid, spoken = self.passage, self.spoken["patch"]
        told = {
            "id": (laid.id, np.zeros(len(spoken), np.int64)),
            "patch": (laid.patch, spoken),
            "audio": (laid.audio, np.ones(len(spoken), np.int64)),
        }
        found = {name: np.concatenate(parts) for name, parts in told.items()}
        if self._prepared.adapter is not None:
            found[ADAPTER] = np.full(len(found["id"]), self._prepared.adapter, np.int64)
        return found

    def begin(self, write: SlotWriter) -> None:
        spoken, prepared = self.spoken["patch"], self._prepared
        write("patch", spoken[-1] if len(spoken) else self.passage.patch[-1])
        write("frame", self.frames)
        write("said", len(spoken))
        write("over", 0)
        write("seed", prepared.request.seed)
        write("guidance", prepared.guidance)
        write("deviation", prepared.deviation)
        if prepared.adapter is not None:
            write(ADAPTER, prepared.adapter)
