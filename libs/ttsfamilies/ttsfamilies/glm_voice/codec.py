"""GLM-4-Voice's codes in the engine: a block is solved a step a launch, and then sounded.

Streams are computed one after the other: norms over all of a block's time leave nothing to pad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn.weights import Shards, Subset, as_stored, filled, unfilled
from ttscommon.wire.fields import Arrays, Field, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Due, Samples, StateUse, Work
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.cosyvoice.facts import HIFT
from ttsfamilies.cosyvoice.s3_flow.flow import plain
from ttsfamilies.cosyvoice.s3_flow.hift import Hift
from ttsfamilies.cosyvoice.s3_flow.sizes import flow_sizes, hift_sizes
from ttsfamilies.glm_voice.blocks import (
    LAG_SAMPLES,
    SAMPLE_RATE,
    TOKEN_SAMPLES,
    GlmPassage,
    begun,
    blank,
    flushed,
    stepped,
)
from ttsfamilies.glm_voice.facts import FLOW
from ttsfamilies.glm_voice.flow import STEPS, GlmFlow

_NONE: Final = np.zeros(0, np.float32)
# Of mel frames, which are all that grows.
_STATE_BYTES: Final = 4 * 80 * 7
_MOST_TOGETHER: Final = 200


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> GlmVoiceCodec:
    """A decoder's folder, as `antiphon convert` makes it; raises CheckpointError."""
    shards = Shards.of(folder)
    try:
        flow, hift = (
            unfilled(GlmFlow, flow_sizes(shards.shapes)),
            unfilled(Hift, hift_sizes(plain(shards.shapes))),
        )
    except (KeyError, AssertionError) as error:
        raise CheckpointError(f"{folder} holds no flow of GLM-4-Voice: {error}") from error
    parts: list[tuple[nn.Module, tuple[str, ...]]] = [(flow, FLOW), (hift, HIFT)]
    for net, prefixes in parts:
        stated = as_stored(net.state_dict(), shards.shapes)
        filled(net, stated, Subset(shards, prefixes), device=how.where)
    hift.f0_predictor.double()
    return GlmVoiceCodec(name, flow, hift)


@dataclass(eq=False)
class GlmSound:
    """A stream. passage: what was spoken since it began, or since a silence."""

    passage: GlmPassage | None = None


class GlmVoiceCodec(Codec):
    """Loaded networks."""

    silences = True
    usual = 25

    def __init__(self, name: str, flow: GlmFlow, hift: Hift) -> None:
        self._flow, self._hift = flow, hift
        self._open: dict[int, GlmSound] = {}
        self.spec = CodecSpec(
            name,
            "glm_voice",
            SAMPLE_RATE,
            TOKEN_SAMPLES,
            {"token": Field((), "i2", flow.input_embedding.num_embeddings)},
            lag_samples=LAG_SAMPLES,
            context_frames=0,
            solver_steps=STEPS,
            most_together=_MOST_TOGETHER,
            state_bytes=_STATE_BYTES,
        )

    def open(self, request: SpeechRequest, frame: int = 0) -> GlmSound:
        stream = GlmSound()
        self._open[id(stream)] = stream
        return stream

    def close(self, state: GlmSound) -> None:
        self._open.pop(id(state), None)

    @property
    def state_use(self) -> StateUse:
        """See Codec; each state is bounded."""
        passages = [stream.passage for stream in self._open.values()]
        return StateUse(sum(passage.nbytes for passage in passages if passage is not None))

    def due(self, state: GlmSound, frames: Arrays, *, ended: bool) -> Due | None:
        passage, count = state.passage or blank(self._flow), rows(frames)
        if passage.work is not None:
            return passage.work.due
        if passage.closed:
            return None
        # Whether a block is the last one tells what it sounds like: one more id must be known.
        if count > passage.hop:
            return Due(passage.hop, closes=False)
        if not ended or not (count or passage.solved):
            return None
        return Due(count, closes=True)

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        found = [self._decoded(work) for work in batch]
        for work, (passage, _) in zip(batch, found, strict=True):
            work.state.passage = passage
        return [decoded for _, decoded in found]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _decoded(self, work: Work) -> tuple[GlmPassage | None, Decoded]:
        """What a stream has behind a work, and what that gives."""
        passage: GlmPassage = work.state.passage or blank(self._flow)
        if work.segment is not None:
            return self._prepared(passage, work.segment, closes=work.final)
        if work.silent:
            sound = self._rest(self._closed(passage))
            zeros = np.zeros(len(work) * TOKEN_SAMPLES, np.float32)
            return None, Decoded(np.concatenate([sound, zeros]), ended=True)
        return self._heard(passage, work)

    def _prepared(
        self, passage: GlmPassage, segment: Arrays, *, closes: bool
    ) -> tuple[GlmPassage | None, Decoded]:
        """A step of a block, of one that begins the first."""
        if passage.work is None and not rows(segment):
            return None, Decoded(self._rest(self._closed(passage)), ended=True)
        if passage.work is None:
            passage = self._begun(passage, segment, closes=closes)
        passage = stepped(self._flow, self._hift, passage)
        return passage, Decoded(_NONE, prepared=passage.work is None)

    def _begun(self, passage: GlmPassage, frames: Arrays, *, closes: bool) -> GlmPassage:
        where = self._flow.spk_embed_affine_layer.bias.device
        ids = torch.from_numpy(frames["token"].astype(np.int64)).to(where)
        return begun(self._flow, passage, ids, Due(rows(frames), closes))

    def _heard(self, passage: GlmPassage, work: Work) -> tuple[GlmPassage | None, Decoded]:
        """Samples of frames; what was not prepared is solved at once."""
        missing = passage.taken + len(work) - passage.solved
        left = cut(work.frames, len(work) - missing, len(work))
        while rows(left) and (due := self._next(passage, rows(left), closes=work.final)).frames:
            passage = self._begun(passage, cut(left, 0, due.frames), closes=due.closes)
            passage = self._finished(passage)
            left = cut(left, due.frames, rows(left))
        passage = replace(passage, taken=passage.taken + len(work))
        if work.final or (passage.closed and passage.taken == passage.solved):
            return None, Decoded(self._rest(self._closed(passage)), ended=True)
        return self._given(passage)

    @staticmethod
    def _next(passage: GlmPassage, count: int, *, closes: bool) -> Due:
        hop = passage.hop
        return Due(hop, closes=False) if count > hop or not closes else Due(count, closes=True)

    def _finished(self, passage: GlmPassage) -> GlmPassage:
        while passage.work is not None:
            passage = stepped(self._flow, self._hift, passage)
        return passage

    def _closed(self, passage: GlmPassage) -> GlmPassage:
        passage = self._finished(passage)
        return passage if passage.closed else flushed(self._hift, passage)

    @staticmethod
    def _given(passage: GlmPassage) -> tuple[GlmPassage, Decoded]:
        """As many samples as are due."""
        count = max(0, passage.taken * TOKEN_SAMPLES - LAG_SAMPLES - passage.sent)
        sound = passage.sound[:count].float().cpu().numpy()
        rest = passage.sound[count:]
        return replace(passage, sound=rest, sent=passage.sent + count), Decoded(sound)

    @staticmethod
    def _rest(passage: GlmPassage) -> Samples:
        """All that is left, and what a last mel frame was not begun for."""
        count = passage.taken * TOKEN_SAMPLES - passage.sent
        sound = passage.sound.float().cpu().numpy()
        return np.pad(sound, (0, count - len(sound)))
