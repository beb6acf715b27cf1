"""The networks of Kyutai TTS: a backbone that attends to a voice, and a depth transformer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, DecoderConfig, RopeConfig
from ttscommon.engine.nn.blocks import RMSNorm
from ttscommon.engine.nn.decoder import DecoderBlock, SwiGLU
from ttscommon.engine.nn.rope import Rope
from ttscommon.engine.nn.weights import Shards, Source, filled, named, unfilled
from ttsfamilies.base.lm.codes import CodeDraw, Scratch
from ttsfamilies.kyutai_tts.conditions import StepConditions, condition_sources
from ttsfamilies.kyutai_tts.config import EPS, KyutaiConfig, load_config


class Alpha(Source):
    """The weights of a norm, which lie in the last of three dimensions."""

    def shapes(self, whole: Sequence[int]) -> dict[str, tuple[int, ...]]:
        return {self.names[0]: (1, 1, *whole)}

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        return parts[0].flatten()


def rows_of(names: Sequence[str], each: int) -> Source:
    """A parameter that is so many rows of each of these."""
    return Source(tuple(names), (each,) * len(names))


Hear = Callable[[int, Tensor], Tensor]
"""Attention to the voice: (layer, q [tokens, heads, head_dim]) -> the same shape."""


def backbone_config(c: KyutaiConfig) -> DecoderConfig:
    """The stack over steps, without what attends to the voice."""
    return DecoderConfig(
        dim=c.dim,
        layers=c.num_layers,
        heads=c.num_heads,
        kv_heads=c.num_heads,
        head_dim=c.dim // c.num_heads,
        hidden=c.hidden,
        eps=EPS,
        rope=RopeConfig(theta=c.max_period, interleaved=True),
    )


def depth_config(c: KyutaiConfig) -> DecoderConfig:
    """The stack over the codes of a step. It knows no positions."""
    heads = c.depformer_num_heads
    return DecoderConfig(
        dim=c.depformer_dim,
        layers=c.depformer_num_layers,
        heads=heads,
        kv_heads=heads,
        head_dim=c.depformer_dim // heads,
        hidden=c.depth_hidden,
        eps=EPS,
    )


class HearingBlock(DecoderBlock):
    """A block that attends to the voice between the steps and the feed-forward network."""

    def __init__(self, c: DecoderConfig, rope: Rope) -> None:
        super().__init__(c, rope)
        self.dim = c.dim
        self.voice_norm = nn.LayerNorm(c.dim)
        self.voice_qkv = nn.Linear(c.dim, 3 * c.dim, bias=False)
        self.voice_out = nn.Linear(c.dim, c.dim, bias=False)

    def hearing(
        self, x: Tensor, angles: tuple[Tensor, Tensor], attend: Attend, hear: Hear, layer: int
    ) -> Tensor:
        """[tokens, dim] -> the same."""
        q, k, v = self.attention.queries(self.attention_norm(x), angles)
        x = x + self.attention.finish(attend(layer, q, k, v))
        asked = nn.functional.linear(self.voice_norm(x), self.voice_qkv.weight[: self.dim])
        heard = hear(layer, asked.view(q.shape))
        x = x + self.voice_out(heard.flatten(-2))
        return x + self.mlp(self.mlp_norm(x))

    def heard(self, voice: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [positions, heads, head_dim] of a voice [positions, dim]."""
        both = nn.functional.linear(voice, self.voice_qkv.weight[self.dim :])
        keys, values = both.view(len(voice), 2, -1, self.attention.head_dim).unbind(1)
        return keys, values


class DemuxedEmbedding(nn.Module):
    """Embeds a number that stands for two ids, (second + 1) * ids + first; the second may lack."""

    def __init__(self, ids: int, inner: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(ids, inner)
        self.first = nn.Linear(inner, dim, bias=False)
        self.second = nn.Linear(inner, dim, bias=False)

    def forward(self, numbers: Tensor) -> Tensor:
        """[tokens] int64 -> [tokens, dim]."""
        first = self.first(self.table(numbers % self.table.num_embeddings))
        behind = numbers // self.table.num_embeddings - 1
        second = self.second(self.table(behind.clamp(min=0)))
        return first + second.masked_fill((behind < 0)[:, None], 0.0)


class DepthBlock(nn.Module):
    """A block whose codebooks have weights of their own, of which several may share one set."""

    def __init__(self, c: DecoderConfig, sets: int) -> None:
        super().__init__()
        self.sets, self.shape = sets, (1, 3, c.heads, c.head_dim)
        self.attention_norm, self.mlp_norm = RMSNorm(c.dim, c.eps), RMSNorm(c.dim, c.eps)
        self.qkv = nn.Parameter(torch.empty(sets * 3 * c.dim, c.dim))
        self.out = nn.Parameter(torch.empty(sets * c.dim, c.dim))
        self.mlps = nn.ModuleList(SwiGLU(c.dim, c.hidden) for _ in range(sets))

    def forward(self, x: Tensor, which: int, layer: int, scratch: Scratch) -> Tensor:
        """[rows, dim] of one codebook -> the same, with its set of weights."""
        qkv = nn.functional.linear(self.attention_norm(x), self.qkv.chunk(self.sets)[which])
        q, k, v = qkv.view(-1, *self.shape).unbind(2)
        attended = scratch(layer, q, k, v).flatten(1)
        x = x + nn.functional.linear(attended, self.out.chunk(self.sets)[which])
        return x + self.mlps[which](self.mlp_norm(x))


class Depth(nn.Module):
    """The codes of a step, one after the other; the first is told the step's text."""

    def __init__(self, c: KyutaiConfig) -> None:
        super().__init__()
        self.config, self.schedule = depth_config(c), c.schedule
        self.sets, dim = max(c.schedule) + 1, c.depformer_dim
        rank, codes = c.depformer_low_rank_embeddings, c.card + 1
        self.into = nn.Parameter(torch.empty(self.sets * dim, c.dim))
        self.text = DemuxedEmbedding(c.text_card + 1, rank, dim)
        self.codes = nn.Parameter(torch.empty((c.n_q - 1) * codes, rank))
        self.widen = nn.Parameter(torch.empty((c.n_q - 1) * dim, rank))
        self.heads = nn.Parameter(torch.empty(c.n_q * c.card, dim))
        self.blocks = nn.ModuleList(
            DepthBlock(self.config, self.sets) for _ in range(c.depformer_num_layers)
        )

    def forward(self, hidden: Tensor, text: Tensor, pick: CodeDraw) -> Tensor:
        """hidden: [rows, backbone dim]; text: [rows] int64 -> codes [rows, codebooks] int64."""
        scratch, codes = (
            Scratch(self.config, len(hidden), len(self.schedule), hidden),
            list[Tensor](),
        )
        for codebook, which in enumerate(self.schedule):
            told = self._embed(codes[-1], codebook - 1) if codes else self.text(text)
            x = told + nn.functional.linear(hidden, self.into.chunk(self.sets)[which])
            for layer, block in enumerate(self.blocks):
                x = block(x, which, layer, scratch)
            scratch.filled += 1
            head = self.heads.chunk(len(self.schedule))[codebook]
            codes.append(pick(nn.functional.linear(x, head).float(), codebook))
        return torch.stack(codes, 1)

    def _embed(self, codes: Tensor, codebook: int) -> Tensor:
        before = len(self.schedule) - 1
        narrow = nn.functional.embedding(codes, self.codes.chunk(before)[codebook])
        return nn.functional.linear(narrow, self.widen.chunk(before)[codebook])


class KyutaiNet(nn.Module):
    """All parts of the talker. Methods work on [tokens, ...] or [rows, ...]."""

    def __init__(self, config: KyutaiConfig) -> None:
        super().__init__()
        c = self.config = config
        stack = backbone_config(c)
        self.codes = nn.Parameter(torch.empty(c.n_q * (c.card + 1), c.dim))
        self.text = DemuxedEmbedding(c.text_card + 1, c.dim, c.dim)
        self.rope = Rope(stack.head_dim, stack.rope)
        self.blocks = nn.ModuleList(HearingBlock(stack, self.rope) for _ in range(stack.layers))
        self.norm = RMSNorm(c.dim, EPS)
        self.words = nn.Linear(c.dim, c.text_card_out or c.text_card, bias=False)
        self.depth = Depth(c)
        self.conditions = StepConditions(c)

    def hearing_blocks(self) -> Iterator[HearingBlock]:
        for block in self.blocks:
            assert isinstance(block, HearingBlock)
            yield block

    def embed(self, text: Tensor, codes: Tensor, guided: Tensor) -> Tensor:
        """Inputs [tokens, dim] of steps: text [tokens] and codes [tokens, codebooks] int64, below
        0 where there is none; guided [tokens]: see StepConditions.
        """
        tables = torch.arange(codes.shape[-1], device=codes.device) * (self.config.card + 1)
        found = nn.functional.embedding(codes.clamp(min=0) + tables, self.codes)
        heard = found.masked_fill((codes < 0)[..., None], 0.0).sum(-2)
        said: Tensor = heard + self.text(text)
        return said + self.conditions.conditioning[guided].to(said.dtype)

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend, hear: Hear) -> Tensor:
        """Backbone states [tokens, dim] of inputs [tokens, dim] at positions [tokens]."""
        angles = self.rope.angles(positions)
        for layer, block in enumerate(self.hearing_blocks()):
            x = block.hearing(x, angles, attend, hear, layer)
        return self.norm(x)


def sources(net: KyutaiNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    c, sets = net.config, max(net.config.schedule) + 1
    found = {
        "codes": rows_of([f"emb.{i}.weight" for i in range(c.n_q)], c.card + 1),
        "norm.weight": Alpha(("out_norm.alpha",)),
        "depth.into": rows_of([f"depformer_in.{i}.weight" for i in range(sets)], c.depformer_dim),
        "depth.heads": rows_of([f"linears.{i}.weight" for i in range(c.n_q)], c.card),
    }
    before = [f"depformer_emb.{i}." for i in range(c.n_q - 1)]
    found["depth.codes"] = rows_of([f"{name}weight" for name in before], c.card + 1)
    found["depth.widen"] = rows_of([f"{name}low_rank.weight" for name in before], c.depformer_dim)
    norms = {"attention_norm": "norm1", "mlp_norm": "norm2"}
    for ours, theirs in (("blocks", "transformer"), ("depth.blocks", "depformer")):
        places = {
            f"{ours}.*.{mine}.weight": f"{theirs}.layers.*.{norms[mine]}.alpha" for mine in norms
        }
        found |= {name: Alpha(one.names) for name, one in named(net, places).items()}
    return found | named(net, _NAMES) | condition_sources(net.conditions, "conditions.")


_NAMES: Final = {
    "words": "text_linear",
    "text.table": "text_emb",
    "text.first": "text_emb.out1",
    "text.second": "text_emb.out2",
    "depth.text.table": "depformer_text_emb",
    "depth.text.first": "depformer_text_emb.out1",
    "depth.text.second": "depformer_text_emb.out2",
    "blocks.*.attention.qkv.weight": "transformer.layers.*.self_attn.in_proj_weight",
    "blocks.*.attention.out": "transformer.layers.*.self_attn.out_proj",
    "blocks.*.voice_qkv.weight": "transformer.layers.*.cross_attention.in_proj_weight",
    "blocks.*.voice_out": "transformer.layers.*.cross_attention.out_proj",
    "blocks.*.voice_norm": "transformer.layers.*.norm_cross",
    "blocks.*.mlp.gate_up": "transformer.layers.*.gating.linear_in",
    "blocks.*.mlp.down": "transformer.layers.*.gating.linear_out",
    "depth.blocks.*.qkv": "depformer.layers.*.self_attn.in_proj_weight",
    "depth.blocks.*.out": "depformer.layers.*.self_attn.out_proj.weight",
    "depth.blocks.*.mlps.*.gate_up": "depformer.layers.*.gating.*.linear_in",
    "depth.blocks.*.mlps.*.down": "depformer.layers.*.gating.*.linear_out",
}
# In the files, though nothing is computed with it.
_UNUSED: Final = ("depformer_text_emb.low_rank.weight",)


def load_net(checkpoint: Path, device: str, dtype: str) -> KyutaiNet:
    """The talker of a checkpoint folder; raises CheckpointError."""
    net = unfilled(KyutaiNet, load_config(checkpoint)).to(getattr(torch, dtype))
    net.conditions.float()
    filled(net, sources(net), Shards.of(checkpoint), others=_UNUSED, device=device)
    net.conditions.settle()
    return net
