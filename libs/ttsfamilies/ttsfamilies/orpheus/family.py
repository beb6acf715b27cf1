"""Orpheus in the engine: an id a step, a frame every seven.

Each of a frame's seven slots has 4096 ids of its own, and the end of speech comes before a frame
only. A draw is among the ids of its slot, so that every frame can be decoded; where the model
would have drawn another, its audio would be damaged. Ids of a frame that is not whole are the
device's alone: a stream whose cache was taken away draws them again, with the same noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.checkpoint import checked_config
from ttscommon.engine.nn.weights import Shards, filled, unfilled
from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttscommon.wire.replicas import Gender, Voice
from ttsfamilies.base.lm.llama import LlamaSizes
from ttsfamilies.base.lm.request import (
    IdsPrompt,
    PassagesText,
    PenalisedDrawing,
    fields_of,
    limited,
    tell,
)
from ttsfamilies.base.lm.stepped import DrawnStep, LanguageModel, LlamaNet, sources
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.runners.computation import Rows, SlotTensors
from ttsfamilies.base.sampling import Rules, Settings, draw_ids, without_unlikely
from ttsfamilies.base.talker.base import (
    NUMBER,
    ModelSpec,
    known_voice,
    not_cloning,
    stated,
)
from ttsfamilies.base.talker.lmstream import (
    DRAWN,
    ENDLESS,
    REPLAY,
    LmStream,
    letters,
    longest_s,
)
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.base.text.segment import Passages
from ttsfamilies.orpheus.facts import FAMILY

SLOTS: Final = 7
CODES: Final = 4096
BEGIN_TEXT: Final = 128_000
END_TURN: Final = 128_009
BEGIN_SPEECH: Final = 128_257
END_SPEECH: Final = 128_258
BEGIN_HUMAN: Final = 128_259
END_HUMAN: Final = 128_260
BEGIN_MODEL: Final = 128_261
FIRST_AUDIO: Final = 128_266
END_AUDIO: Final = FIRST_AUDIO + SLOTS * CODES
# Sequences in training were no longer.
MOST_POSITIONS: Final = 8192


def load_config(folder: Path) -> LlamaSizes:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    return checked_config(folder, LlamaSizes, _problems)


def _problems(c: LlamaSizes) -> list[str]:
    found = []
    if c.model_type != "llama" or c.vocab_size < END_AUDIO:
        found.append(f"a {c.model_type} with {c.vocab_size} ids has no place for seven codebooks")
    return [*found, *c.problems()]


# Of the English fine-tune.
VOICES: Final = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
_TEXT_SHARE: Final = 4
# About 40 s of speech; the model was trained on sequences of 97 s, and most of it on far fewer.
PASSAGE_TOKENS: Final = 160
PARAMETERS: Final = (
    Parameter(
        "min_p", "number", 0.0, "Ids less likely than this share of the likeliest are out.", 0, 1
    ),
)


@dataclass(frozen=True)
class OrpheusDrawing(PenalisedDrawing):
    """min_p: see PARAMETERS."""

    min_p: float = 0.0

    @classmethod
    def of(cls, request: SpeechRequest) -> Self:
        """The request's settings over the package's defaults."""
        extra = completed(PARAMETERS, request.extra_params)
        return cls(0.6, 0, 0.8, 1.3, float(extra["min_p"])).with_asked(request.sampling)


def prompt_ids(tokenizer: TextTokenizer, voice: str, text: str) -> tuple[int, ...]:
    """The turn of a human who says `voice: text`, and the model's as far as its speech begins."""
    said = tokenizer.ids(f"{voice}: {text}" if voice else text)
    begin, end = (BEGIN_HUMAN, BEGIN_TEXT), (END_TURN, END_HUMAN, BEGIN_MODEL, BEGIN_SPEECH)
    return (*begin, *said, *end)


class OrpheusPrepared(PassagesText):
    """See PassagesText."""

    def __init__(self, request: SpeechRequest, tokenizer: TextTokenizer, positions: int) -> None:
        """positions: of prompt and speech."""
        self.request, self.drawing = request, OrpheusDrawing.of(request)
        self._tokenizer, self._positions = tokenizer, positions
        asked = request.sampling.max_new_tokens
        self._most = asked or positions
        self.most_frames = max(1, asked // SLOTS) if asked else ENDLESS
        self.passages = Passages(lambda text: len(tokenizer.ids(text)), PASSAGE_TOKENS)

    def prompt(self, text: str) -> IdsPrompt:
        ids = prompt_ids(self._tokenizer, self.request.voice, text)
        limited(len(ids), self._positions // _TEXT_SHARE, "a sentence takes")
        frames = max(1, min(self._most, self._positions - len(ids)) // SLOTS)
        return IdsPrompt(ids, frames, longest_s=longest_s(letters(text)))


# Ids that may be drawn, from the end of speech to the last audio id.
SPOKEN: Final = slice(END_SPEECH, END_AUDIO)
CHOICES: Final = END_AUDIO - END_SPEECH
_OFFSETS: Final = FIRST_AUDIO + CODES * np.arange(SLOTS, dtype=np.int64)


def audio_ids(frames: Array) -> Array:
    """Codes [frames, 7] -> ids [frames * 7] int64."""
    return (frames.astype(np.int64) + _OFFSETS).reshape(-1)


class OrpheusStream(LmStream):
    """See TalkerStream."""

    frame = MappingProxyType({"codes": Field((SLOTS,), "i2", CODES)})
    steps = SLOTS

    def __init__(self, prepared: OrpheusPrepared) -> None:
        super().__init__(prepared.most_frames)
        self._prepared = prepared

    def positions(self, branch: int) -> Arrays:
        return {"id": np.concatenate([self.passage.array, audio_ids(self.spoken["codes"])])}

    def drawn(self) -> Arrays:
        return {"id": np.full(1, DRAWN, np.int64)}

    def begin(self, write: SlotWriter) -> None:
        seen = np.zeros(CHOICES, np.uint8)
        seen[audio_ids(self.spoken["codes"]) - END_SPEECH] = 1
        write("seen", seen)
        write("codes", np.zeros(SLOTS, np.int64))
        write("step", SLOTS * self.frames)
        write("drawn", 0)
        tell(write, self._prepared.request.seed, self._prepared.drawing)


def load_net(checkpoint: Path, device: str, dtype: str) -> LlamaNet:
    """The network of a checkpoint folder; raises CheckpointError."""
    config = load_config(checkpoint)
    net = unfilled(LlamaNet, config).to(getattr(torch, dtype))
    # Some files repeat the embedding as the head that is tied to it.
    others = ("lm_head.",) if config.tie_word_embeddings else ()
    return filled(net, sources(net), Shards.of(checkpoint), others=others, device=device)


# The published speakers', as listeners hear them.
_GENDERS: Final[Mapping[str, Gender]] = {
    **dict.fromkeys(("tara", "leah", "jess", "mia", "zoe"), "female"),
    **dict.fromkeys(("leo", "dan", "zac"), "male"),
}


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Orpheus:
    """A checkpoint's folder; raises CheckpointError."""
    return Orpheus(name, load_net(folder, how.where, how.dtype), TextTokenizer.load(folder))


class Orpheus(LanguageModel):
    """A loaded checkpoint."""

    def __init__(self, name: str, net: LlamaNet, tokenizer: TextTokenizer) -> None:
        self.spec = spec_of(name, net.config)
        self.cache_dtype = net.embedding.weight.dtype
        self._net, self._tokenizer = net, tokenizer
        device = net.embedding.weight.device
        self._codes = torch.arange(CODES, device=device)
        self._slots = torch.arange(SLOTS, device=device)
        self._never = torch.zeros(CODES + 1, dtype=torch.bool, device=device)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> OrpheusPrepared:
        known_voice(request.voice, (voice.id for voice in self.spec.voices))
        not_cloning(request)
        return OrpheusPrepared(request, self._tokenizer, self.positions)

    def open(self, prepared: OrpheusPrepared) -> OrpheusStream:
        return OrpheusStream(prepared)

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        slot = old["step"] % SLOTS
        columns = self._columns(slot)
        seen = old["seen"].gather(1, columns)
        logits = self._net.logits(hidden, SPOKEN)
        chosen, finite = self._chosen(logits, columns, seen, slot, old)
        ended = chosen == CODES
        told, choice = ~ended, columns.gather(1, chosen[:, None])
        codes = torch.where(self._slots == slot[:, None], chosen[:, None], old["codes"])
        moved = {
            "step": old["step"] + told,
            "drawn": torch.where(told, choice[:, 0] + END_SPEECH, old["drawn"]),
            "codes": torch.where(told[:, None], codes, old["codes"]),
            "seen": torch.where(told[:, None], old["seen"].scatter(1, choice, 1), old["seen"]),
        }
        gained = told & (slot == SLOTS - 1)
        return DrawnStep(moved, {"codes": codes.to(torch.int16)}, gained, ended, finite)

    def _columns(self, slot: Tensor) -> Tensor:
        """[rows] -> [rows, CODES + 1]: where the slot's codes and then the end are in CHOICES."""
        codes = (FIRST_AUDIO - END_SPEECH) + slot[:, None] * CODES + self._codes
        return torch.cat((codes, torch.zeros_like(slot)[:, None]), 1)

    def _chosen(
        self, logits: Tensor, columns: Tensor, seen: Tensor, slot: Tensor, old: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Columns [rows], and whether each row's logits are finite."""
        # The penalty covers the prompt's ids too, as in the reference; none of them can be drawn.
        rules = Rules(seen.bool(), old["penalty"], (slot == 0).long(), self._never, CODES, 1)
        settings, noise = Settings.of(old), self.noise(old["seed"], old["step"])
        found = without_unlikely(logits.gather(1, columns), settings, rules, old["min_p"])
        return draw_ids(found, noise, 0, settings, rules)


def spec_of(name: str, c: LlamaSizes) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    return ModelSpec(
        **stated(FAMILY, name),
        voices=tuple(Voice(id, id.title(), "en", _GENDERS.get(id)) for id in VOICES),
        frame=OrpheusStream.frame,
        replay=REPLAY,
        parameters=PARAMETERS,
        state={
            "codes": Field((SLOTS,), "i8"),
            "seen": Field((CHOICES,), "u1"),
            **dict.fromkeys(("step", "drawn"), NUMBER),
            **fields_of(OrpheusDrawing),
        },
        inputs={"id": NUMBER},
        caches={"backbone": c.cache},
        max_positions=min(c.max_position_embeddings, MOST_POSITIONS),
    )
