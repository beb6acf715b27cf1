"""The network of T3: rows of a prompt and ids with learned positions, a stack, and a head."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import (
    Attend,
    Decoder,
    DecoderConfig,
    Llama3Scaling,
    RopeConfig,
    dense_attention,
)
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, named, unfilled
from ttsfamilies.base.sampling import Rules, Settings
from ttsfamilies.base.sampling.rules import NEVER, keep_mass, keep_top
from ttsfamilies.chatterbox.facts import HEAD_DIM, IDS, QUERIES, SPEAKER, T3Sizes


def penalised_last(logits: Tensor, settings: Settings, rules: Rules) -> Tensor:
    """Logits [rows, ids] by temperature, top-k and top-p, and then with the penalty on those that
    are left; of a row of temperature 0 as they are, where one id is left.
    """
    assert settings.top_k is not None
    assert settings.top_p is not None
    allowed = logits.masked_fill(rules.forbidden(logits), NEVER)
    warm = settings.temperature > 0
    scaled = allowed / settings.temperature.where(warm, 1.0)[:, None]
    kept = keep_mass(keep_top(scaled, settings.top_k), warm.float(), settings.top_p)
    return rules.punished(kept).where(warm[:, None], allowed)


# What a position holds: a row that is given, a text id or an S3 token.
ROW, TEXT, SPEECH = range(3)
# A text id that is not told: its position stays, as guidance has it.
UNTOLD: Final = -2
_RESAMPLING_HEADS: Final = 4
_ROPE: Final = RopeConfig(500_000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))
# Tensors of the other modules of a folder, and those of T3 that nothing reads.
OTHERS: Final = (
    *("text_head.", "tfmr.embed_tokens.", "tfmr.wte.", "t3.", "gen."),
    *("flow.", "mel2wav.", "tokenizer.", "speaker_encoder.", "trim_fade"),
    *("lstm.", "proj.", "similarity_"),
)


class GeluRise(nn.Module):
    """GPT-2's feed-forward network."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> [..., dim]."""
        return self.down(nn.functional.gelu(self.up(x), approximate="tanh"))


class Resampler(nn.Module):
    """A recording's tokens to a fixed number of rows: a Perceiver (Jaegle et al., 2021) whose one
    block sees the tokens first and its own rows then.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.empty(1, QUERIES, dim))
        self.norm = nn.LayerNorm(dim)
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, heard: Tensor) -> Tensor:
        """[tokens, dim] -> [QUERIES, dim]."""
        rows = self._attended(self.queries[0], heard)
        return self._attended(rows, rows)

    def _attended(self, rows: Tensor, over: Tensor) -> Tensor:
        asked, seen = self.norm(rows), self.norm(over)
        q, k, v = (
            layer(x).unflatten(-1, (_RESAMPLING_HEADS, -1))
            for layer, x in ((self.q, asked), (self.k, seen), (self.v, seen))
        )
        return rows + self.out(dense_attention(q, k, v, None).flatten(-2))


class T3Net(nn.Module):
    """Methods work on [tokens, ...] or [rows, ...]."""

    def __init__(self, c: T3Sizes) -> None:
        super().__init__()
        self.config = c
        self.text, self.speech = nn.Embedding(c.text_ids, c.dim), nn.Embedding(c.speech_ids, c.dim)
        self.speaker = nn.Linear(SPEAKER, c.dim)
        if c.gpt:
            self.places = nn.Embedding(c.wholes, c.dim)
        else:
            self.text_places = nn.Embedding(c.texts, c.dim)
            self.speech_places = nn.Embedding(c.speeches, c.dim)
            self.emotion = nn.Linear(1, c.dim, bias=False)
            self.resampler = Resampler(c.dim)
        rise = (lambda layer: GeluRise(c.dim, c.hidden)) if c.gpt else None
        self.backbone = Decoder(stack_config(c), rise)
        self.head = nn.Linear(c.dim, c.speech_ids, bias=c.gpt)

    def conditions(self, speaker: Tensor, heard: Tensor) -> Tensor:
        """A voice [SPEAKER] and tokens of its recording [tokens] -> what a prompt begins with,
        [rows, dim]; of a GPT-2 the voice alone, as its prompt has the tokens themselves.
        """
        voice: Tensor = self.speaker(speaker)[None]
        if self.config.gpt:
            return voice
        places = self.speech_places.weight[: len(heard)]
        return torch.cat((voice, self.resampler(self.speech(heard) + places)))

    def embed(self, kind: Tensor, id: Tensor, at: Tensor, row: Tensor) -> Tensor:
        """[tokens] int64 each, and row [tokens, dim] -> [tokens, dim]. at: among its own kind."""
        text = self.text(id.where(kind == TEXT, 0).clamp(min=0))
        speech = self.speech(id.where(kind == SPEECH, 0))
        if not self.config.gpt:
            text = torch.where((id == UNTOLD)[:, None], 0.0, text)
            text = text + self.text_places(at.where(kind == TEXT, 0))
            speech = speech + self.speech_places(at.where(kind == SPEECH, 0))
        found = torch.where((kind == TEXT)[:, None], text, speech)
        return torch.where((kind == ROW)[:, None], row.to(found.dtype), found)

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Of inputs [tokens, dim] at positions [tokens]: [tokens, dim]."""
        if self.config.gpt:
            # A GPT-2 rotates nothing, which is what position 0 does.
            x, positions = x + self.places(positions), torch.zeros_like(positions)
        return self.backbone(x, positions, attend)

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, dim] -> [rows, IDS]."""
        bias = self.head.bias[:IDS] if self.config.gpt else None
        return nn.functional.linear(hidden, self.head.weight[:IDS], bias)


def stack_config(c: T3Sizes) -> DecoderConfig:
    """The stack of blocks."""
    biased = c.gpt
    return DecoderConfig(
        *(c.dim, c.layers, c.heads, c.heads, HEAD_DIM, c.hidden, 1e-5),
        rope=RopeConfig() if c.gpt else _ROPE,
        norm="layer" if c.gpt else "rms",
        qkv_bias=biased,
        out_bias=biased,
    )


def sources(net: T3Net) -> dict[str, Source]:
    """Every parameter's published tensors."""
    if net.config.gpt:
        found = named(net, _NAMES)
        turned = ("qkv.weight", "out.weight", "up.weight", "down.weight")
        blocks = named(net, _GPT)
        return found | {n: replace(one, turned=n.endswith(turned)) for n, one in blocks.items()}
    return named(net, _NAMES) | decoder_sources(net.backbone.config, "backbone.", "tfmr.")


_NAMES: Final = {
    "text": "text_emb",
    "text_places": "text_pos_emb.emb",
    "speech": "speech_emb",
    "speech_places": "speech_pos_emb.emb",
    "places": "tfmr.wpe",
    "head": "speech_head",
    "speaker": "cond_enc.spkr_enc",
    "emotion": "cond_enc.emotion_adv_fc",
    "resampler.queries": "cond_enc.perceiver.pre_attention_query",
    "resampler.norm": "cond_enc.perceiver.attn.norm",
    "resampler.q": "cond_enc.perceiver.attn.to_q",
    "resampler.k": "cond_enc.perceiver.attn.to_k",
    "resampler.v": "cond_enc.perceiver.attn.to_v",
    "resampler.out": "cond_enc.perceiver.attn.proj_out",
}
# Of a GPT-2, whose matrices are stored the other way round.
_GPT: Final = {
    "backbone.norm": "tfmr.ln_f",
    "backbone.blocks.*.attention_norm": "tfmr.h.*.ln_1",
    "backbone.blocks.*.attention.qkv": "tfmr.h.*.attn.c_attn",
    "backbone.blocks.*.attention.out": "tfmr.h.*.attn.c_proj",
    "backbone.blocks.*.mlp_norm": "tfmr.h.*.ln_2",
    "backbone.blocks.*.mlp.up": "tfmr.h.*.mlp.c_fc",
    "backbone.blocks.*.mlp.down": "tfmr.h.*.mlp.c_proj",
}


def load_net(checkpoint: Path, device: str, dtype: str) -> T3Net:
    """The talker of a checkpoint folder; raises CheckpointError."""
    shards = Shards.of(checkpoint)
    net = unfilled(T3Net, T3Sizes.of(shards.shapes)).to(getattr(torch, dtype))
    return filled(net, sources(net), shards, others=OTHERS, device=device)
