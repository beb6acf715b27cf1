"""Chatterbox in the engine: a token a step, drawn of two branches where a request is guided.

A draw is among the S3 tokens and the end, so that every frame can be decoded; of its larger tables
the model was trained to draw nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.request import fields_of
from ttsfamilies.base.lm.stepped import DrawnStep, SteppedModel, ids_of
from ttsfamilies.base.runners.computation import Attend, Prompts, Rows, SlotTensors
from ttsfamilies.base.sampling import Rules, Settings, draw_ids, without_unlikely
from ttsfamilies.base.talker.base import NUMBER, CacheSpec, ModelSpec, known_voice, stated
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.chatterbox.facts import (
    BEGIN,
    END,
    FAMILY,
    HEAD_DIM,
    IDS,
    SILENCE,
    FolderSettings,
    T3Sizes,
)
from ttsfamilies.chatterbox.net import ROW, SPEECH, T3Net, load_net, penalised_last
from ttsfamilies.chatterbox.request import (
    MOST_POSITIONS,
    REPLAY,
    START_TEXT,
    STOP_TEXT,
    ChatterboxDrawing,
    ChatterboxPrepared,
    ChatterboxStream,
    VoicePositions,
    heard_of,
    parameters,
)
from ttsfamilies.chatterbox.tokenizer import LANGUAGES, Graphemes, evened, in_letters
from ttsfamilies.chatterbox.voices import Hearing, built_in, silent_reference

# Voices whose prompts' beginnings are remembered.
_VOICES: Final = 64
_COUNTS: Final = dict.fromkeys(("said", "frame", "least", "drawn"), NUMBER)


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Chatterbox:
    """A checkpoint's folder; raises CheckpointError."""
    net = load_net(folder, how.where, how.dtype)
    c, settings = net.config, FolderSettings.of(folder)
    tokenizer = Graphemes.load(folder, c.text_ids, gpt=c.gpt, multilingual=c.multilingual)
    hearing, voices = Hearing.load(folder, how.where, c), built_in(folder)
    return Chatterbox(name, net, tokenizer, hearing, voices, whole=not settings.chunk_tokens)


class Chatterbox(SteppedModel):
    """A loaded checkpoint. hearing: None where recordings cannot be encoded."""

    def __init__(
        self,
        name: str,
        net: T3Net,
        tokenizer: Graphemes,
        hearing: Hearing | None,
        voices: Mapping[str, Arrays],
        *,
        whole: bool = True,
    ) -> None:
        """voices: built in, as `derive` has them. whole: see ChatterboxStream."""
        clones, c = hearing is not None, net.config
        self._languages = tuple(filter(tokenizer.knows, LANGUAGES)) if c.multilingual else ()
        self.spec = spec_of(name, c, tuple(voices), self._languages, clones=clones)
        self.cache_dtype = net.head.weight.dtype
        self._net, self._tokenizer, self.recordings = net, tokenizer, hearing
        self._known, self._whole, self._positions = voices, whole, 2 * MOST_POSITIONS
        self._begun = lru_cache(_VOICES)(self._rows)
        never = torch.zeros(IDS, dtype=torch.bool, device=net.head.weight.device)
        never[BEGIN] = True
        self._never = never

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> ChatterboxPrepared:
        c = self._net.config
        drawing, language = ChatterboxDrawing.of(request, c), self._language(request)
        conditions = self._conditions(self._voice(request, derived.reference), drawing)
        ids = partial(self._ids, language=language)
        return ChatterboxPrepared(request, c, conditions, drawing, ids, self._positions)

    def _language(self, request: SpeechRequest) -> str:
        if not self._net.config.multilingual:
            return ""
        language = request.language.partition("-")[0].lower()
        if language not in self._languages:
            known = ", ".join(self._languages)
            raise BadRequest(f"no language {language!r}; there are {known}", param="language")
        return language

    def _ids(self, text: str, language: str) -> list[int]:
        c = self._net.config
        said = evened(text, gpt=c.gpt, multilingual=c.multilingual)
        said = in_letters(said, language) if c.multilingual else said
        ids = self._tokenizer.ids(said, language)
        return ids if c.gpt else [START_TEXT, *ids, STOP_TEXT]

    def _voice(self, request: SpeechRequest, reference: Arrays | None) -> Arrays:
        if reference is not None:
            return reference
        known_voice(request.voice, self._known, clones=self.recordings is not None)
        return self._known[request.voice]

    def _conditions(self, voice: Arrays, drawing: ChatterboxDrawing) -> VoicePositions:
        """What a prompt with this voice begins with."""
        c = self._net.config
        speaker, heard = heard_of(voice, c)
        rows = self._begun(tuple(speaker.tolist()), tuple(heard.tolist()))
        if not c.gpt:
            emotion = self._net.emotion.weight.T.float().cpu().numpy()
            rows = np.concatenate([rows, emotion * np.float32(drawing.emotion)])
            heard = heard[:0]  # its rows are there
        kind = np.repeat([ROW, SPEECH], [len(rows), len(heard)])
        zeros = np.zeros(len(kind), np.int64)
        row = np.zeros((len(kind), c.dim), np.float32)
        row[: len(rows)] = rows
        return VoicePositions(kind, np.concatenate([zeros[: len(rows)], heard]), zeros, row)

    @torch.inference_mode()
    def _rows(self, speaker: tuple[float, ...], heard: tuple[int, ...]) -> Array:
        """See T3Net.conditions."""
        weight = self._net.head.weight
        told = torch.tensor(speaker).to(weight), torch.tensor(heard, device=weight.device)
        return self._net.conditions(*told).float().cpu().numpy()

    def fit(self, positions: int) -> None:
        self._positions = positions

    def open(self, prepared: ChatterboxPrepared) -> ChatterboxStream:
        return ChatterboxStream(prepared, whole=self._whole)

    def example_reference(self) -> Arrays | None:
        return None if self._known else silent_reference()

    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        told = rows.inputs
        x = self._net.embed(told["kind"], ids_of(rows, state), told["at"], told["row"])
        return self._net.hidden(x, rows.positions, attend["backbone"])

    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        owners = rows.slots if rows.branches is None else rows.branches.owners
        ids, at = (state[name].index_select(0, owners) for name in ("drawn", "said"))
        x = self._net.embed(torch.full_like(ids, SPEECH), ids, at, self._no_row(len(ids)))
        return self._net.hidden(x, rows.positions, attend["backbone"])

    def _no_row(self, tokens: int) -> Tensor:
        return self._net.head.weight.new_zeros(()).expand(tokens, self._net.config.dim)

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        logits = self._net.logits(hidden).float()
        if rows.branches is not None:
            told, untold = logits.chunk(2)
            logits = told + old["weight"][:, None] * (told - untold)
        drawn, finite = self._drawn(logits, old["seen"].bool(), old)
        # An end before tokens that the log has promised, or before any of a GPT-2's.
        drawn = torch.where((drawn == END) & (old["said"] < old["least"]), SILENCE, drawn)
        ended = drawn == END
        gained = ~ended
        moved = {
            "said": old["said"] + gained,
            "frame": old["frame"] + gained,
            "drawn": torch.where(gained, drawn, old["drawn"]),
            "seen": old["seen"].scatter(1, drawn[:, None], 1).where(gained[:, None], old["seen"]),
        }
        return DrawnStep(moved, {"token": drawn.to(torch.int16)}, gained, ended, finite)

    def _drawn(
        self, logits: Tensor, seen: Tensor, old: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Ids [rows], and whether each row's logits are finite."""
        rules = Rules(seen, old["penalty"], old["said"], self._never, END, 0)
        settings = Settings.of(old)
        noise = self.noise(old["seed"], old["frame"])
        if not self._net.config.gpt:
            found = without_unlikely(logits, settings, rules, old["min_p"])
            return draw_ids(found, noise, 0, settings, rules)
        warm = Settings((old["temperature"] > 0).float())
        drawn, _ = draw_ids(penalised_last(logits, settings, rules), noise, 0, warm)
        return drawn, logits.isfinite().all(-1)


def spec_of(
    name: str, c: T3Sizes, voices: Sequence[str], languages: Sequence[str], *, clones: bool
) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    obeyed = {"top_k": c.gpt, "language": languages, "ref_audio": clones}
    without = [field for field, obeys in obeyed.items() if not obeys]
    return ModelSpec(
        **stated(FAMILY, name, without=without),
        voices=tuple(Voice(id, id.title(), "en") for id in voices),
        frame={**ChatterboxStream.frame, **REPLAY},
        state={"seen": Field((IDS,), "u1"), **_COUNTS, **fields_of(ChatterboxDrawing)},
        inputs={**dict.fromkeys(("kind", "id", "at"), NUMBER), "row": Field((c.dim,), "f4")},
        caches={"backbone": CacheSpec(c.layers, c.heads, c.heads, HEAD_DIM)},
        max_positions=MOST_POSITIONS,
        branches=c.branches,
        languages=tuple(languages),
        parameters=parameters(c),
    )
