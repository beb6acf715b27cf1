"""GLM-4-Voice in the engine: ids of words and of sound by turns, one a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.answering import STATE, AnsweringModel
from ttsfamilies.base.lm.answers import REPLAY, AnswerIds, AnswerStream, frame_of
from ttsfamilies.base.lm.drawing import tell
from ttsfamilies.base.lm.ranked_tokenizer import RankedTokenizer
from ttsfamilies.base.runners.computation import Attend, Rows, SlotTensors
from ttsfamilies.base.talker.base import CacheSpec, ModelSpec, Prepared
from ttsfamilies.base.talker.lmstream import DRAWN
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.glm_voice.config import RATE_HZ, SAMPLE_RATE, GlmConfig
from ttsfamilies.glm_voice.hearing import SpokenTurns
from ttsfamilies.glm_voice.net import GlmNet, load_net
from ttsfamilies.glm_voice.request import PRE_TOKEN, VOICE, DialogueIds, GlmPrepared

_EXAMPLES: Final = ("What does the sea sound like on a quiet morning in autumn?", "Hello.")
_LANGUAGES: Final = ("zh", "en")


class GlmStream(AnswerStream):
    """See AnswerStream."""

    def __init__(self, prepared: GlmPrepared, ids: DialogueIds) -> None:
        super().__init__(ids.answers, ids.tokenizer.spelled, RATE_HZ)
        self._prepared = prepared

    def positions(self, lane: int) -> Arrays:
        del lane
        return {"id": np.concatenate([self.passage.ids, self.answered])}

    def drawn(self) -> Arrays:
        return {"id": np.full(1, DRAWN, np.int64)}

    def begin(self, write: SlotWriter) -> None:
        super().begin(write)
        tell(write, self._prepared.request.seed, self._prepared.drawing)


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> GlmVoice:
    """A checkpoint's folder; raises CheckpointError."""
    net = load_net(folder, how.where, how.dtype)
    tokenizer = RankedTokenizer.load(folder, PRE_TOKEN)
    ids = DialogueIds(tokenizer, net.config.padded_vocab_size)
    hearing = SpokenTurns.load(folder, how.where)
    if hearing.codes > ids.answers.codes:
        raise CheckpointError(f"{folder}: it hears codes that the language model lacks")
    return GlmVoice(name, net, ids, hearing)


class GlmVoice(AnsweringModel):
    """A loaded checkpoint. Its answers are bounded by their ids, and repeat themselves rightly."""

    pauses = True  # of a text that is no speech there are none to make
    signs = None

    def __init__(
        self, name: str, net: GlmNet, ids: DialogueIds, hearing: SpokenTurns, voice: str = VOICE
    ) -> None:
        self.spec = spec_of(name, net.config, ids.answers, voice)
        self.cache_dtype = net.embedding.weight.dtype
        self.ids = ids.answers
        self._net, self._dialogue, self.recordings = net, ids, hearing

    def prepare(
        self,
        request: SpeechRequest,
        reference: Arrays | None = None,
        turns: Sequence[Arrays | None] = (),
    ) -> GlmPrepared:
        del reference
        if request.voice not in (known := [voice.id for voice in self.spec.voices]):
            raise UnknownVoice(
                f"no voice {request.voice!r}; there is {', '.join(known)}", param="voice"
            )
        return GlmPrepared(request, turns, self._dialogue, self.spec.max_positions)

    def open(self, prepared: Prepared) -> GlmStream:
        assert isinstance(prepared, GlmPrepared)
        return GlmStream(prepared, self._dialogue)

    def examples(self) -> Sequence[str]:
        return _EXAMPLES

    def hidden(
        self, ids: Tensor, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> Tensor:
        del state
        return self._net.hidden(ids, rows.positions, attend["backbone"])

    def logits(self, hidden: Tensor) -> Tensor:
        found: Tensor = self._net.head(hidden)
        return found


def spec_of(name: str, c: GlmConfig, ids: AnswerIds, voice: str) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    heads = (c.num_attention_heads, c.multi_query_group_num, c.kv_channels)
    return ModelSpec(
        name=name,
        family="glm_voice",
        sample_rate=SAMPLE_RATE,
        frame_rate_hz=RATE_HZ,
        voices=(Voice(voice, "GLM-4-Voice", "mul", "female", _LANGUAGES),),
        frame=frame_of(ids),
        replay=REPLAY,
        state=STATE,
        inputs={"id": Field((), "i8")},
        caches={"backbone": CacheSpec(c.num_layers, *heads)},
        accepts=frozenset(
            ("speech", "turns", "instructions", "temperature", "top_k", "top_p", "max_new_tokens")
        ),
        max_positions=c.positions,
        says=True,
    )
