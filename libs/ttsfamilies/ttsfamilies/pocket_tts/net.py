"""The network of Pocket TTS: a transformer over voice, text and latents, and two heads.

lsd (Boffi et al., 2025): jumps along the flow, told where each begins and ends. flow_matching:
Euler steps. drifting: the sample itself. pointwise: what is added to the noise.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.codec_sizes import MimiSizes
from ttscommon.engine.nn import Attend, Decoder, halve
from ttscommon.engine.nn.decoder import DecoderConfig
from ttscommon.engine.nn.mimi import LatentEncoder, transformer_config
from ttscommon.engine.nn.rope import RopeConfig
from ttscommon.engine.nn.weights import Shards, Source, filled, named, unfilled
from ttsfamilies.pocket_tts.request import BEGIN, LATENT, TEXT
from ttsfamilies.pocket_tts.sizes import (
    FlowHeadSizes,
    LatentMimi,
    PocketBackbone,
    PocketConfig,
    load_config,
)

# Common parts of Pocket TTS's talker and codec: Kyutai's own names of tensors.


FLOW_LM, MIMI = "flow_lm.", "mimi."


def backbone_config(c: PocketBackbone) -> DecoderConfig:
    """The transformer over voice, text and latents; its last norm is `out_norm`."""
    return DecoderConfig(
        dim=c.d_model,
        layers=c.num_layers,
        heads=c.num_heads,
        kv_heads=c.kv_heads,
        head_dim=c.head_dim,
        hidden=c.hidden,
        eps=1e-5,
        rope=RopeConfig(theta=float(c.max_period), interleaved=True),
        norm="layer",
        mlp="gelu_tanh",
    )


def window_config(c: MimiSizes) -> DecoderConfig:
    """A transformer of the codec."""
    rope = RopeConfig(theta=c.theta, interleaved=True)
    return replace(transformer_config(c), mlp="gelu_tanh", rope=rope)


def stack_sources(
    net: Decoder, ours: str, theirs: str, qkv: str = "in_proj.weight"
) -> dict[str, Source]:
    """The blocks of a stack; names begin with `ours` and `theirs`, dot included. qkv: what the
    product to queries, keys and values is called.
    """
    places = {"blocks.*.attention.qkv.weight": f"layers.*.self_attn.{qkv}", **_STACK}
    return named(net, places, ours, theirs)


_STACK: Final = {
    "blocks.*.attention_norm": "layers.*.norm1",
    "blocks.*.attention.out": "layers.*.self_attn.out_proj",
    "blocks.*.attention_scale.weight": "layers.*.layer_scale_1.scale",
    "blocks.*.mlp_norm": "layers.*.norm2",
    "blocks.*.mlp.up": "layers.*.linear1",
    "blocks.*.mlp.down": "layers.*.linear2",
    "blocks.*.mlp_scale.weight": "layers.*.layer_scale_2.scale",
}


class PocketEncoder(LatentEncoder):
    """Recordings to the latents that a voice is made of."""

    def __init__(self, c: LatentMimi) -> None:
        sizes = c.encoder_sizes
        super().__init__(sizes, window_config(sizes), sizes.sliding_window, c.heard)
        self.frame_samples = sizes.frame_samples

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 -> [frames, latent]; silence fills up the last frame."""
        whole = nn.functional.pad(wav, (0, -len(wav) % self.frame_samples))
        return self.latents(whole)[0].T


def encoder_sources(net: PocketEncoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    places = {"*.block.*": "encoder.model.*.block.*.conv", "*": "encoder.model.*.conv"}
    found = named(net.convolutions, places, "convolutions.", MIMI)
    found |= named(net, {"slow_down": "downsample.conv.conv"}, theirs=MIMI)
    stack = f"{MIMI}encoder_transformer.transformer."
    return found | stack_sources(net.transformer, "transformer.", stack)


_FREQUENCIES = 128


class TimeEmbedding(nn.Module):
    """A time's sines and cosines, through two layers. Its norm divides by the variance."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(torch.empty(_FREQUENCIES))
        self.rise, self.out = nn.Linear(2 * _FREQUENCIES, dim), nn.Linear(dim, dim)
        self.alpha = nn.Parameter(torch.empty(dim))

    def forward(self, time: Tensor) -> Tensor:
        """[..., 1] -> [..., dim]."""
        angles = time * self.frequencies
        waves = torch.cat((angles.cos(), angles.sin()), -1)
        x = self.out(nn.functional.silu(self.rise(waves)))
        return x * self.alpha * torch.rsqrt(1e-5 + x.var(-1, keepdim=True))


class Modulated(nn.Module):
    """A block whose norm is shifted and scaled by the condition, around a gated residual."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim, 1e-6)
        self.rise, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.modulation = nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift, scale, gate = self.modulation(condition).chunk(3, -1)
        inner = self.norm(x) * (1 + scale) + shift
        return x + gate * self.out(nn.functional.silu(self.rise(inner)))


class FlowHead(nn.Module):
    """Call `freeze` after loading."""

    times: Tensor

    def __init__(self, c: FlowHeadSizes, latent: int, hidden: int, steps: int) -> None:
        super().__init__()
        self.kind, self.steps = c.type, steps
        self.embeddings = nn.ModuleList(TimeEmbedding(c.dim) for _ in range(c.times))
        self.condition = nn.Linear(hidden, c.dim)
        self.noise = nn.Linear(latent, c.dim)
        self.blocks = nn.ModuleList(Modulated(c.dim) for _ in range(c.depth))
        self.norm = nn.LayerNorm(c.dim, 1e-6, elementwise_affine=False)
        self.modulation, self.out = nn.Linear(c.dim, 2 * c.dim), nn.Linear(c.dim, latent)
        self.register_buffer("times", torch.zeros(steps, c.dim), persistent=False)

    @torch.no_grad()
    def freeze(self) -> None:
        """Embed the times of all steps, once and for all."""
        begin = torch.arange(self.steps, device=self.out.weight.device)[:, None] / self.steps
        known = torch.zeros(self.steps, self.out.in_features, device=begin.device)
        for embed, time in zip(self.embeddings, (begin, begin + 1 / self.steps), strict=False):
            known += embed(time) / len(self.embeddings)
        self.times = known

    def forward(self, hidden: Tensor, noise: Tensor) -> Tensor:
        """[rows, hidden], [rows, latent] -> [rows, latent]."""
        known, z = self.condition(hidden), noise
        for time in self.times:
            found = self._step(z, nn.functional.silu(known + time))
            z = found if self.kind == "drifting" else z + found / self.steps
        return z

    def _step(self, z: Tensor, condition: Tensor) -> Tensor:
        x = self.noise(z)
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.modulation(condition).chunk(2, -1)
        return self.out(self.norm(x) * (1 + scale) + shift)


_NAMES: Final = {
    "text": "conditioner.embed",
    "widen": "conditioner.proj",
    "latent": "input_linear",
    "heard.weight": "speaker_proj_weight",
    "first": "bos_emb",
    "begin": "bos_before_voice",
    "backbone.norm": "out_norm",
    "narrow": "z_proj",
    "end": "out_eos",
    "head.embeddings.*.frequencies": "flow_net.time_embed.*.freqs",
    "head.embeddings.*.alpha": "flow_net.time_embed.*.mlp.3.alpha",
    "head.embeddings.*.rise": "flow_net.time_embed.*.mlp.0",
    "head.embeddings.*.out": "flow_net.time_embed.*.mlp.2",
    "head.blocks.*.norm": "flow_net.res_blocks.*.in_ln",
    "head.blocks.*.rise": "flow_net.res_blocks.*.mlp.0",
    "head.blocks.*.out": "flow_net.res_blocks.*.mlp.2",
    "head.blocks.*.modulation": "flow_net.res_blocks.*.adaLN_modulation.1",
    "head.condition": "flow_net.cond_embed",
    "head.noise": "flow_net.input_proj",
    "head.modulation": "flow_net.final_layer.adaLN_modulation.1",
    "head.out": "flow_net.final_layer.linear",
}


class PocketNet(nn.Module):
    """Methods work on [tokens, ...] or [rows, ...]."""

    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.config = config
        lm, latent = config.flow_lm, config.mimi.quantizer.dimension
        table, dim = lm.lookup_table, lm.transformer.d_model
        hidden = lm.z_dim or dim
        self.text = nn.Embedding(table.n_bins + 1, table.rank or dim)
        self.widen = nn.Linear(table.rank, dim, bias=False) if table.rank else nn.Identity()
        self.latent = nn.Linear(latent, dim, bias=False)
        self.heard = nn.Linear(config.mimi.heard, dim, bias=False)
        self.first = nn.Parameter(torch.empty(latent))
        self.begin = nn.Parameter(torch.empty(1, 1, dim)) if lm.insert_bos_before_voice else None
        self.backbone = Decoder(backbone_config(lm.transformer))
        self.narrow = nn.Linear(dim, hidden, bias=False) if lm.z_dim else nn.Identity()
        self.end = nn.Linear(hidden, 1)
        self.head = FlowHead(lm.flow, latent, hidden, config.steps)

    def embed(self, kind: Tensor, id: Tensor, row: Tensor) -> Tensor:
        """[tokens] int64 each, and row [tokens, values] of a latent -> [tokens, dim]."""
        latent, heard = (each(row[:, : each.in_features]) for each in (self.latent, self.heard))
        found = torch.where((kind == LATENT)[:, None], latent, heard)
        text = self.widen(self.text(id.where(kind == TEXT, 0)))
        found = torch.where((kind == TEXT)[:, None], text, found)
        if self.begin is not None:
            found = torch.where((kind == BEGIN)[:, None], self.begin[0], found)
        return found

    def hidden(
        self, x: Tensor, positions: Tensor, attend: Attend, only: Tensor | None = None
    ) -> Tensor:
        """Of inputs [tokens, dim] at positions [tokens]: [tokens, hidden], or of `only` some."""
        return self.narrow(self.backbone(x, positions, attend, only))


def sources(net: PocketNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = named(net, _NAMES, theirs=FLOW_LM)
    return found | stack_sources(net.backbone, "backbone.", f"{FLOW_LM}transformer.")


def load_net(checkpoint: Path, device: str) -> PocketNet:
    """The talker of a checkpoint folder, in float32; raises CheckpointError.

    On a CPU a step takes as long as its weights are big: those that are published in two bytes
    stay in two.
    """
    net = unfilled(PocketNet, load_config(checkpoint))
    others = (MIMI, f"{FLOW_LM}emb_std", f"{FLOW_LM}emb_mean")
    filled(net, sources(net), Shards.of(checkpoint), others=others, device=device)
    net.head.freeze()
    if device == "cpu":
        halve(net, lossless=True)
    return net


def load_encoder(checkpoint: Path, device: str) -> PocketEncoder:
    """What turns recordings into latents; raises CheckpointError."""
    net = unfilled(PocketEncoder, load_config(checkpoint).mimi)
    others = (FLOW_LM, f"{MIMI}decoder", f"{MIMI}upsample.", f"{MIMI}quantizer.")
    return filled(net, encoder_sources(net), Shards.of(checkpoint), others=others, device=device)
