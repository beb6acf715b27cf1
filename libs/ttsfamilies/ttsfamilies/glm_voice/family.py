"""GLM-4-Voice in the engine: ids of words and of sound by turns, one a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn import Attend, Decoder, DecoderConfig, RopeConfig
from ttscommon.engine.nn.weights import Shards, Source, filled, same, unfilled
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.answering import STATE, AnsweringModel
from ttsfamilies.base.lm.request import tell
from ttsfamilies.base.lm.tokenizer import RankedTokenizer
from ttsfamilies.base.lm.turns import REPLAY, AnswerIds, AnswerStream, frame_of
from ttsfamilies.base.runners.computation import Rows
from ttsfamilies.base.talker.base import CacheSpec, ModelSpec, Prepared, known_voice, stated
from ttsfamilies.base.talker.lmstream import DRAWN
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.glm_voice.facts import FAMILY
from ttsfamilies.glm_voice.hearing import SpokenTurns
from ttsfamilies.glm_voice.request import (
    PRE_TOKEN,
    RATE_HZ,
    VOICE,
    DialogueIds,
    GlmConfig,
    GlmPrepared,
    load_config,
)

_LAYER: Final = {
    "attention_norm.weight": "input_layernorm.weight",
    "attention.qkv.weight": "self_attention.query_key_value.weight",
    "attention.qkv.bias": "self_attention.query_key_value.bias",
    "attention.out.weight": "self_attention.dense.weight",
    "mlp_norm.weight": "post_attention_layernorm.weight",
    "mlp.gate_up.weight": "mlp.dense_h_to_4h.weight",
    "mlp.down.weight": "mlp.dense_4h_to_h.weight",
}
_BUFFERS: Final = ("transformer.rotary_pos_emb.",)


class GlmNet(nn.Module):
    """Ids to hidden states, and those to logits of the whole vocabulary."""

    def __init__(self, config: GlmConfig) -> None:
        super().__init__()
        c = self.config = config
        self.embedding = nn.Embedding(c.padded_vocab_size, c.hidden_size)
        self.backbone = Decoder(
            DecoderConfig(
                dim=c.hidden_size,
                layers=c.num_layers,
                heads=c.num_attention_heads,
                kv_heads=c.multi_query_group_num,
                head_dim=c.kv_channels,
                hidden=c.ffn_hidden_size,
                eps=c.layernorm_epsilon,
                rope=RopeConfig(theta=c.theta, interleaved=True, share=0.5),
                qkv_bias=True,
            )
        )
        self.head = nn.Linear(c.hidden_size, c.padded_vocab_size, bias=False)

    def hidden(self, ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Ids [tokens] at positions [tokens] -> [tokens, dim]."""
        states: Tensor = self.backbone(self.embedding(ids), positions, attend)
        return states


def sources(net: GlmNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {
        "embedding.weight": same("transformer.embedding.word_embeddings.weight"),
        "backbone.norm.weight": same("transformer.encoder.final_layernorm.weight"),
        "head.weight": same("transformer.output_layer.weight"),
    }
    for layer in range(net.config.num_layers):
        ours, theirs = f"backbone.blocks.{layer}.", f"transformer.encoder.layers.{layer}."
        found |= {ours + own: same(theirs + name) for own, name in _LAYER.items()}
    return found


def load_net(checkpoint: Path, device: str, dtype: str) -> GlmNet:
    """The network of a checkpoint folder; raises CheckpointError."""
    config = load_config(checkpoint)
    net = unfilled(GlmNet, config).to(getattr(torch, dtype))
    return filled(net, sources(net), Shards.of(checkpoint), others=_BUFFERS, device=device)


_EXAMPLES: Final = ("What does the sea sound like on a quiet morning in autumn?", "Hello.")
_LANGUAGES: Final = ("zh", "en")


class GlmStream(AnswerStream):
    """See AnswerStream."""

    def __init__(self, prepared: GlmPrepared, ids: DialogueIds) -> None:
        super().__init__(ids.answers, ids.tokenizer.spelled, RATE_HZ)
        self._prepared = prepared

    def positions(self, branch: int) -> Arrays:
        del branch
        return {"id": np.concatenate([self.passage.array, self.answered])}

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

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> GlmPrepared:
        known_voice(request.voice, (voice.id for voice in self.spec.voices))
        return GlmPrepared(request, derived.turns, self._dialogue, self.spec.max_positions)

    def open(self, prepared: Prepared) -> GlmStream:
        assert isinstance(prepared, GlmPrepared)
        return GlmStream(prepared, self._dialogue)

    def examples(self) -> Sequence[str]:
        return _EXAMPLES

    def hidden(self, ids: Tensor, rows: Rows, attend: Mapping[str, Attend]) -> Tensor:
        return self._net.hidden(ids, rows.positions, attend["backbone"])

    def logits(self, hidden: Tensor) -> Tensor:
        found: Tensor = self._net.head(hidden)
        return found


def spec_of(name: str, c: GlmConfig, ids: AnswerIds, voice: str) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    heads = (c.num_attention_heads, c.multi_query_group_num, c.kv_channels)
    return ModelSpec(
        **stated(FAMILY, name),
        voices=(Voice(voice, "GLM-4-Voice", "mul", "female", _LANGUAGES),),
        frame=frame_of(ids),
        replay=REPLAY,
        state=STATE,
        inputs={"id": Field((), "i8")},
        caches={"backbone": CacheSpec(c.num_layers, *heads)},
        max_positions=c.positions,
        says=True,
    )
