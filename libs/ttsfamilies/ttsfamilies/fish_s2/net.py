"""The networks of Fish Audio S2: a slow transformer over text and frames, a fast one over a frame.

A frame's input is its semantic code twice, as a token of the text and as a code, and its other
codes, all of them added up.

All of them rotate neighbouring channels, by tables that are rounded to bfloat16. Here they rotate
halves, of heads whose channels are put in that order when they are loaded: products of queries and
keys are the same, and kernels that rotate halves serve them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder, RopeConfig
from ttscommon.engine.nn.decoder import DecoderConfig
from ttscommon.engine.nn.weights import Shards, Source, filled, same, unfilled
from ttsfamilies.base.lm.depth import DepthTransformer
from ttsfamilies.base.lm.turns import FRAME
from ttsfamilies.fish_s2.config import FishConfig, FishStack, load_config


def stack_sources(c: DecoderConfig, ours: str, theirs: str) -> dict[str, Source]:
    """Every parameter of a `Decoder`; what both begin with, dot included."""
    found = {f"{ours}norm.weight": same(f"{theirs}norm.weight")}
    for layer in range(c.layers):
        block = _block_sources(c, f"{theirs}layers.{layer}.")
        found |= {f"{ours}blocks.{layer}.{key}": source for key, source in block.items()}
    return found


def _block_sources(c: DecoderConfig, theirs: str) -> dict[str, Source]:
    attention, mlp = f"{theirs}attention.", f"{theirs}feed_forward."
    rotated = (c.heads + c.kv_heads) * c.head_dim
    found = {
        "attention_norm.weight": same(f"{theirs}attention_norm.weight"),
        "mlp_norm.weight": same(f"{theirs}ffn_norm.weight"),
        "attention.qkv.weight": Source((f"{attention}wqkv.weight",), paired=(rotated, c.head_dim)),
        "attention.out.weight": same(f"{attention}wo.weight"),
        "mlp.gate_up.weight": Source(
            (f"{mlp}w1.weight", f"{mlp}w3.weight"), rows=(c.hidden, c.hidden)
        ),
        "mlp.down.weight": same(f"{mlp}w2.weight"),
    }
    if c.qk_norm:
        for part in ("q_norm", "k_norm"):
            name = (f"{attention}{part}.weight",)
            found[f"attention.{part}.weight"] = Source(name, paired=(c.head_dim, c.head_dim))
    if c.layer_scale:
        found["attention_scale.weight"] = same(f"{theirs}attention_layer_scale.gamma")
        found["mlp_scale.weight"] = same(f"{theirs}ffn_layer_scale.gamma")
    return found


SLOW: Final = "text_model.model."
FAST: Final = "audio_decoder."


def stack_config(c: FishStack) -> DecoderConfig:
    """The stack of blocks."""
    return DecoderConfig(
        dim=c.dim,
        layers=c.n_layer,
        heads=c.n_head,
        kv_heads=c.n_local_heads,
        head_dim=c.head_dim,
        hidden=c.intermediate_size,
        eps=c.norm_eps,
        rope=RopeConfig(theta=c.rope_base, rounded=True),
        qk_norm=c.attention_qk_norm,
    )


class FastTransformer(DepthTransformer):
    """One table and one head for all codebooks."""

    def __init__(self, c: FishConfig) -> None:
        super().__init__(stack_config(c.fast), c.codebooks - 1)
        self.project = nn.Identity()
        self.codes = nn.Embedding(c.codes, c.fast.dim)
        self.out = nn.Linear(c.fast.dim, c.codes, bias=False)

    def table(self, codebook: int) -> Tensor:
        del codebook
        return self.codes.weight

    def head(self, codebook: int) -> Tensor:
        del codebook
        return self.out.weight


class FishNet(nn.Module):
    """All parts of the talker. codes: one table of all codebooks, [codebooks * codes, dim]."""

    choices: Tensor

    def __init__(self, config: FishConfig) -> None:
        super().__init__()
        self.config = config
        self.text = nn.Embedding(config.slow.vocab_size, config.slow.dim)
        self.codes = nn.Embedding(config.codebooks * config.codes, config.slow.dim)
        self.slow = Decoder(stack_config(config.slow))
        self.fast = FastTransformer(config)
        self.register_buffer("choices", torch.empty(0), persistent=False)

    def freeze(self) -> None:
        """Gather what may be drawn, once and for all; to be called when parameters are loaded."""
        c = self.config
        ids = torch.tensor([*range(c.first, c.first + c.codes), c.end])
        self.choices = self.text.weight.detach()[ids.to(self.text.weight.device)]

    def embed_frames(self, codes: Tensor) -> Tensor:
        """Frames [..., codebooks] int64 -> [..., dim]."""
        c = self.config
        tables = torch.arange(c.codebooks, device=codes.device) * c.codes
        sums = nn.functional.embedding(codes + tables, self.codes.weight).sum(-2)
        found: Tensor = (self.text(codes[..., 0] + c.first) + sums) / (1 + c.codebooks) ** 0.5
        return found

    def embed(self, text: Tensor, codes: Tensor) -> Tensor:
        """Text ids [tokens], FRAME where frames [tokens, codebooks] stand -> [tokens, dim]."""
        said = self.text(text.clamp(min=0))
        return torch.where((text == FRAME)[:, None], self.embed_frames(codes), said)

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """States [tokens, dim] of inputs [tokens, dim] at positions [tokens], normed."""
        states: Tensor = self.slow(x, positions, attend)
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, dim] -> [rows, 1 + codes] float32: of the semantic codes, and of the end."""
        return nn.functional.linear(hidden, self.choices).float()


def sources(net: FishNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {
        "text.weight": same(f"{SLOW}embeddings.weight"),
        "codes.weight": same(f"{FAST}codebook_embeddings.weight"),
        "fast.codes.weight": same(f"{FAST}embeddings.weight"),
        "fast.out.weight": same(f"{FAST}output.weight"),
    }
    found |= stack_sources(net.slow.config, "slow.", SLOW)
    return found | stack_sources(net.fast.decoder.config, "fast.decoder.", FAST)


def load_net(checkpoint: Path, device: str, dtype: str) -> FishNet:
    """The talker of a checkpoint folder; raises CheckpointError."""
    shards = Shards.of(checkpoint)
    net = unfilled(FishNet, load_config(checkpoint)).to(getattr(torch, dtype))
    stated = sources(net)
    filled(net, stated, shards, device=device)
    net.freeze()
    return net
