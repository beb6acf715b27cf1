"""GLM-4-Voice in the engine: ids of words and of sound by turns, one a step."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn import DecoderConfig, RopeConfig
from ttscommon.engine.nn.weights import Shards, Source, filled, named, same, unfilled
from ttscommon.sound.recordings import LEAST_SAID_S, read_recording
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.answers import (
    REPLAY,
    STATE,
    AnswerIds,
    AnsweringModel,
    AnswerStream,
    frame_of,
)
from ttsfamilies.base.lm.recordings import NetworkRecordings, windowed_sinc
from ttsfamilies.base.lm.stepped import LanguageNet
from ttsfamilies.base.lm.tokenizer import RankedTokenizer
from ttsfamilies.base.s3.references import RATE_HZ as HEARD_HZ
from ttsfamilies.base.s3.references import WhisperAttention, WhisperBlock, WhisperMel
from ttsfamilies.base.talker.base import CacheSpec, ModelSpec, known_voice, stated
from ttsfamilies.base.talker.lmstream import DRAWN
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.glm_voice.facts import FAMILY
from ttsfamilies.glm_voice.request import (
    PRE_TOKEN,
    RATE_HZ,
    TOKENIZER,
    VOICE,
    DialogueIds,
    GlmConfig,
    GlmPrepared,
    HearingConfig,
    load_config,
    load_hearing_config,
)

# Whisper-VQ: 12.5 ids a second of what is said, by an encoder that hears in blocks of 4 s.
#
# A Whisper encoder with causal convolutions, whose attention sees a block and all before it;
# states are averaged by fours and each becomes the nearest of the codebook. Always float32.


_TAPS, _HOP, _STRIDE = 3, 160, 2
# Training's, and what lies behind the codebook.
_OTHERS: Final = ("embed_positions2.", "ema_", "quantize_ema_", "layer_norm.")


class WhisperVQ(nn.Module):
    """A recording at 16 kHz to its ids."""

    def __init__(self, c: HearingConfig) -> None:
        super().__init__()
        self.config = c
        self.mel = WhisperMel()
        self.conv1 = nn.Conv1d(c.num_mel_bins, c.d_model, _TAPS)
        self.conv2 = nn.Conv1d(c.d_model, c.d_model, _TAPS, _STRIDE)
        self.embed_positions = nn.Embedding(c.max_source_positions, c.d_model)
        dim, heads, hidden = c.d_model, c.encoder_attention_heads, c.encoder_ffn_dim
        self.layers = nn.ModuleList(
            WhisperBlock(WhisperAttention(dim, heads), dim, hidden)
            for _ in range(c.quantize_position)
        )
        self.codebook = nn.Embedding(c.quantize_vocab_size, c.d_model)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> [tokens] int64, one for each 1280 samples begun."""
        samples, pool = len(wav), self.config.pooling_kernel_size
        token = _HOP * _STRIDE * pool
        count = -(-samples // token)
        x = self._states(nn.functional.pad(wav, (0, count * token - samples)), samples)
        pooled = x.view(count, pool, -1).mean(1)
        known = self.codebook.weight
        return (known.square().sum(1) - 2 * pooled @ known.T).argmin(1)

    def _states(self, wav: Tensor, samples: int) -> Tensor:
        """Of a recording that was padded, of which so many samples were said."""
        x = self.mel(wav)[None]
        for conv in (self.conv1, self.conv2):
            x = nn.functional.gelu(conv(nn.functional.pad(x, (_TAPS - 1, 0))))
        at = torch.arange(x.shape[2], device=x.device)
        x = x[0].T + self.embed_positions(at)
        block = self.config.quantize_causal_block_size
        visible = (at // block <= (at // block)[:, None]) & (at * _STRIDE * _HOP < samples)
        for layer in self.layers:
            x = layer(x, visible)
        return cast(Tensor, x)


def load_hearing(checkpoint: Path, device: str) -> WhisperVQ:
    """What hears a user, of the folder within a checkpoint; raises CheckpointError."""
    config, shards = load_hearing_config(checkpoint), Shards.of(checkpoint / TOKENIZER)
    prefix = "" if "conv1.weight" in shards.shapes else "model.encoder."
    net, others = unfilled(WhisperVQ, config), _others(config, prefix)
    filled(net, hearing_sources(net, prefix), shards, others=others, device=device)
    net.mel = WhisperMel().to(device)  # made of numbers, not of weights
    return net


def hearing_sources(net: WhisperVQ, prefix: str = "") -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {name: same(prefix + name) for name, _ in net.named_parameters()}
    return found | named(net, _LAYERS, theirs=prefix)


_LAYERS: Final = {
    "layers.*.attn.query": "layers.*.self_attn.q_proj",
    "layers.*.attn.key": "layers.*.self_attn.k_proj",
    "layers.*.attn.value": "layers.*.self_attn.v_proj",
    "layers.*.attn.out": "layers.*.self_attn.out_proj",
    "layers.*.attn_ln": "layers.*.self_attn_layer_norm",
    "layers.*.mlp.0": "layers.*.fc1",
    "layers.*.mlp.2": "layers.*.fc2",
    "layers.*.mlp_ln": "layers.*.final_layer_norm",
}


def _others(c: HearingConfig, prefix: str) -> tuple[str, ...]:
    """Layers behind the codebook as well."""
    names = (*_OTHERS, *(f"layers.{i}." for i in range(c.quantize_position, 64)))
    return (
        *(prefix + name for name in names),
        *(("model.decoder.", "proj_out.") if prefix else ()),
    )


_NAMES: Final = {
    "embedding": "embedding.word_embeddings",
    "backbone.norm": "encoder.final_layernorm",
    "backbone.blocks.*.attention_norm": "encoder.layers.*.input_layernorm",
    "backbone.blocks.*.attention.qkv": "encoder.layers.*.self_attention.query_key_value",
    "backbone.blocks.*.attention.out": "encoder.layers.*.self_attention.dense",
    "backbone.blocks.*.mlp_norm": "encoder.layers.*.post_attention_layernorm",
    "backbone.blocks.*.mlp.gate_up": "encoder.layers.*.mlp.dense_h_to_4h",
    "backbone.blocks.*.mlp.down": "encoder.layers.*.mlp.dense_4h_to_h",
    "head": "output_layer",
}
_BUFFERS: Final = ("transformer.rotary_pos_emb.",)


class GlmNet(LanguageNet):
    """See LanguageNet."""

    def __init__(self, config: GlmConfig) -> None:
        c = config
        stack = DecoderConfig(
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
        super().__init__(c.padded_vocab_size, stack)
        self.config = c


def sources(net: GlmNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    return named(net, _NAMES, theirs="transformer.")


def load_net(checkpoint: Path, device: str, dtype: str) -> GlmNet:
    """The network of a checkpoint folder; raises CheckpointError."""
    net = unfilled(GlmNet, load_config(checkpoint)).to(getattr(torch, dtype))
    return filled(net, sources(net), Shards.of(checkpoint), others=_BUFFERS, device=device)


_LANGUAGES: Final = ("zh", "en")


class GlmStream(AnswerStream):
    """See AnswerStream."""

    def __init__(self, prepared: GlmPrepared, ids: DialogueIds) -> None:
        super().__init__(prepared, ids.answers, ids.tokenizer.spelled, RATE_HZ)

    def positions(self, branch: int) -> Arrays:
        return {"id": np.concatenate([self.passage.array, self.answered])}

    def drawn(self) -> Arrays:
        return {"id": np.full(1, DRAWN, np.int64)}


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> GlmVoice:
    """A checkpoint's folder; raises CheckpointError."""
    net = load_net(folder, how.where, how.dtype)
    tokenizer = RankedTokenizer.load(folder, PRE_TOKEN)
    ids = DialogueIds(tokenizer, net.config.padded_vocab_size)
    hearing = load_hearing(folder, how.where)
    if hearing.codebook.num_embeddings > ids.answers.codes:
        raise CheckpointError(f"{folder}: it hears codes that the language model lacks")
    return GlmVoice(name, net, ids, hearing)


class GlmVoice(AnsweringModel):
    """A loaded checkpoint."""

    examples = ("What does the sea sound like on a quiet morning in autumn?", "Hello.")

    def __init__(self, name: str, net: GlmNet, ids: DialogueIds, hearing: WhisperVQ) -> None:
        self.spec = spec_of(name, net.config, ids.answers)
        self.cache_dtype = net.embedding.weight.dtype
        self.ids = ids.answers
        self._net, self._dialogue, self._hearing = net, ids, hearing
        self.recordings = NetworkRecordings(hearing, self._heard)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> GlmPrepared:
        known_voice(request.voice, (voice.id for voice in self.spec.voices))
        return GlmPrepared(request, derived.turns, self._dialogue, self.positions)

    def open(self, prepared: GlmPrepared) -> GlmStream:
        return GlmStream(prepared, self._dialogue)

    def _heard(self, recording: bytes) -> Arrays:
        """Ids [tokens, 1] of what was said."""
        samples, rate = read_recording(recording, LEAST_SAID_S)
        heard = torch.from_numpy(windowed_sinc(samples, rate, HEARD_HZ))
        ids = self._hearing(heard.to(self._hearing.codebook.weight.device))
        return {"codes": ids[:, None].cpu().numpy().astype(np.int32)}


def spec_of(name: str, c: GlmConfig, ids: AnswerIds) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    heads = (c.num_attention_heads, c.multi_query_group_num, c.kv_channels)
    return ModelSpec(
        **stated(FAMILY, name),
        voices=(Voice(VOICE, "GLM-4-Voice", "mul", "female", _LANGUAGES),),
        frame=frame_of(ids),
        replay=REPLAY,
        state=STATE,
        inputs={"id": Field((), "i8")},
        caches={"backbone": CacheSpec(c.num_layers, *heads)},
        max_positions=c.positions,
        says=True,
    )
