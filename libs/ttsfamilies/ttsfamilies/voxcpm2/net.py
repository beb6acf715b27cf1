"""The networks of VoxCPM2: two language models in lockstep, and what is within a patch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import (
    Attend,
    Decoder,
    DecoderConfig,
    LongScaling,
    RopeConfig,
    dense_attention,
    pad_rows,
)
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, named, unfilled
from ttsfamilies.voxcpm2.facts import LocalSizes, VoxcpmConfig, load_config

# The local diffusion transformer: noise to a patch, along a flow that is solved within the step.
#
# Nine calls for ten steps of Euler's method, as the first one moves nothing; each call has two
# rows of a stream, told of the language models and not (CFG-Zero*: Fan et al., 2025).


def rotation(c: VoxcpmConfig) -> RopeConfig:
    """Of all networks."""
    lm = c.lm_config
    return RopeConfig(lm.rope_theta, scaling=LongScaling(lm.factors, lm.gain))


def local_config(c: VoxcpmConfig, sizes: LocalSizes) -> DecoderConfig:
    """The stack of blocks within a patch; it has the KV heads of the language models."""
    lm = c.lm_config
    return DecoderConfig(
        dim=sizes.hidden_dim,
        layers=sizes.num_layers,
        heads=sizes.num_heads,
        kv_heads=lm.num_key_value_heads,
        head_dim=sizes.head_dim,
        hidden=sizes.ffn_dim,
        eps=lm.rms_norm_eps,
        rope=rotation(c),
    )


def attend_within(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[..., positions, heads, head_dim] each: every position sees all others."""
    return dense_attention(q, k, v, None)


class PatchEncoder(nn.Module):
    """A patch's latents to one vector: what is behind a position that stands before them."""

    def __init__(self, c: VoxcpmConfig) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(1, 1, 1, c.encoder_config.hidden_dim))
        self.rise = nn.Linear(c.feat_dim, c.encoder_config.hidden_dim)
        self.decoder = Decoder(local_config(c, c.encoder_config))

    def forward(self, patch: Tensor) -> Tensor:
        """[patches, latents, values] -> [patches, dim]."""
        inner = self.rise(patch.to(self.rise.weight.dtype))
        x = torch.cat((self.first[0].expand(len(inner), -1, -1), inner), 1)
        positions = torch.arange(x.shape[1], device=x.device)
        return self.decoder(x, positions, attend_within)[:, 0]


_STEPS: Final = 10
_LONGEST: Final = 10_000.0
_SCALE: Final = 1000.0
_LEAST_NORM: Final = 1e-8


def times() -> list[float]:
    """At which the network is called, and that of the answer: from 1, more of them at the end."""
    even = [1 - step / _STEPS for step in range(_STEPS + 1)]
    return [at + math.cos(math.pi / 2 * at) - 1 + at for at in even][1:]


class TimeLayers(nn.Module):
    """Two layers behind a time's sines and cosines."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.rise, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, at: Tensor) -> Tensor:
        """[times] -> [times, dim]."""
        half = self.rise.in_features // 2
        places = torch.arange(half, dtype=at.dtype, device=at.device)
        waves = torch.exp(places * -(math.log(_LONGEST) / (half - 1)))
        angles = _SCALE * at[:, None] * waves
        told = torch.cat((angles.sin(), angles.cos()), -1).to(self.rise.weight.dtype)
        return self.out(nn.functional.silu(self.rise(told)))


class PatchSolver(nn.Module):
    """Call `freeze` after loading."""

    times: Tensor

    def __init__(self, c: VoxcpmConfig) -> None:
        super().__init__()
        dim, self.latents = c.dit_config.hidden_dim, c.patch_size
        self.rise, self.condition = nn.Linear(c.feat_dim, dim), nn.Linear(c.feat_dim, dim)
        self.time, self.interval = TimeLayers(dim), TimeLayers(dim)
        self.decoder = Decoder(local_config(c, c.dit_config))
        self.out = nn.Linear(dim, c.feat_dim)
        self.register_buffer("times", torch.zeros(_STEPS - 1, dim), persistent=False)

    @torch.no_grad()
    def freeze(self) -> None:
        """Embed the times of all calls, once and for all; intervals are always told as 0."""
        weight = self.out.weight
        exact = torch.promote_types(weight.dtype, torch.float32)
        at = torch.tensor(times()[:-1], dtype=exact, device=weight.device)
        self.times = self.time(at) + self.interval(torch.zeros_like(at))

    def forward(self, told: Tensor, before: Tensor, noise: Tensor, guidance: Tensor) -> Tensor:
        """told: [rows, 2, dim], by the language models. before: the patch before, and noise:
        [rows, latents, values] each. guidance: [rows]. Returns a patch, of the noise's type.
        """
        told = torch.stack((told, torch.zeros_like(told)), 1)
        condition = self.condition(before.to(told.dtype))[:, None].expand(-1, 2, -1, -1)
        x, known = noise, times()
        for at, begin, end in zip(self.times, known, known[1:], strict=False):
            inner = self.rise(x.to(told.dtype))[:, None].expand(-1, 2, -1, -1)
            time = at.expand(len(x), 2, 1, -1)
            velocity = self._velocity(torch.cat((told, time, condition, inner), 2)).to(x.dtype)
            x = x - (begin - end) * guided(velocity[:, 0], velocity[:, 1], guidance)
        return x

    def _velocity(self, x: Tensor) -> Tensor:
        """[rows, 2, positions, dim] -> [rows, 2, latents, values]."""
        positions = torch.arange(x.shape[2], device=x.device)
        return self.out(self.decoder(x, positions, attend_within)[:, :, -self.latents :])


def guided(told: Tensor, untold: Tensor, guidance: Tensor) -> Tensor:
    """[rows, latents, values] each, guidance [rows] -> the same."""
    one, other = told.flatten(1), untold.flatten(1)
    share = (one * other).sum(1) / ((other * other).sum(1) + _LEAST_NORM)
    base = untold * share[:, None, None]
    return base + guidance[:, None, None] * (told - base)


# Caches of both language models.
BASE, RESIDUAL = "base", "residual"
# Of linear layers, by our names.
_NAMES: Final = {
    "text": "base_lm.embed_tokens",
    "encoder.first": "feat_encoder.special_token",
    "stop": "stop_head",
    "heard": "enc_to_lm_proj",
    "base_conditioning": "lm_to_dit_proj",
    "residual_conditioning": "res_to_dit_proj",
    "joined": "fusion_concat_proj",
    "stop_rise": "stop_proj",
    "lattice.low": "fsq_layer.in_proj",
    "lattice.high": "fsq_layer.out_proj",
    "encoder.rise": "feat_encoder.in_proj",
    "solver.rise": "feat_decoder.estimator.in_proj",
    "solver.condition": "feat_decoder.estimator.cond_proj",
    "solver.out": "feat_decoder.estimator.out_proj",
    "solver.time.rise": "feat_decoder.estimator.time_mlp.linear_1",
    "solver.time.out": "feat_decoder.estimator.time_mlp.linear_2",
    "solver.interval.rise": "feat_decoder.estimator.delta_time_mlp.linear_1",
    "solver.interval.out": "feat_decoder.estimator.delta_time_mlp.linear_2",
}
# What the package's adapters may name: language models, solver, and layers between them.
_ADAPTED: Final = (
    *("base.", "residual.", "solver.decoder."),
    *("heard.", "base_conditioning.", "residual_conditioning.", "joined."),
)


class Lattice(nn.Module):
    """Finite scalar quantization (Mentzer et al., 2023): a few values on a grid each."""

    def __init__(self, dim: int, inner: int, steps: int) -> None:
        super().__init__()
        self.low, self.high, self.steps = nn.Linear(dim, inner), nn.Linear(inner, dim), steps

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> the same."""
        return self.high(torch.round(self.low(x).tanh() * self.steps) / self.steps)


class VoxcpmNet(nn.Module):
    """Methods work on [tokens, ...] or [rows, ...]."""

    def __init__(self, c: VoxcpmConfig) -> None:
        super().__init__()
        self.config, dim = c, c.lm_config.hidden_size
        self.text = nn.Embedding(c.lm_config.vocab_size, dim)
        turns = RopeConfig() if c.residual_lm_no_rope else rotation(c)
        self.base = Decoder(lm_config(c, c.lm_config.num_hidden_layers, rotation(c)))
        self.residual = Decoder(lm_config(c, c.residual_lm_num_layers, turns))
        self.encoder, self.solver = PatchEncoder(c), PatchSolver(c)
        inner, steps = c.scalar_quantization_latent_dim, c.scalar_quantization_scale
        self.lattice = Lattice(dim, inner, steps)
        self.heard = nn.Linear(c.encoder_config.hidden_dim, dim)
        self.base_conditioning = nn.Linear(dim, c.dit_config.hidden_dim)
        self.residual_conditioning = nn.Linear(dim, c.dit_config.hidden_dim)
        self.joined = nn.Linear(2 * dim, dim)
        self.stop_rise, self.stop = nn.Linear(dim, dim), nn.Linear(dim, 2, bias=False)

    def encoded(self, patch: Tensor, audio: Tensor, *, sparse: bool) -> Tensor:
        """Patches [tokens, latents, values] that are `audio` [tokens] bool -> [tokens, dim], zeros
        elsewhere. sparse: the others are not computed, for which it is read which they are.
        """
        inner = self._some(patch, audio) if sparse else self.encoder(patch)
        return self.heard(inner) * audio[:, None]

    def _some(self, patch: Tensor, audio: Tensor) -> Tensor:
        places = audio.nonzero()[:, 0]
        found = self.heard.weight.new_zeros(len(patch), self.heard.in_features)
        if len(places):
            found[places] = self.encoder(pad_rows(patch[places]))[: len(places)]
        return found

    def hidden(
        self,
        x: Tensor,
        heard: Tensor,
        audio: Tensor,
        positions: Tensor,
        attend: Mapping[str, Attend],
    ) -> tuple[Tensor, Tensor]:
        """Of both language models, [tokens, dim] each. x: inputs, of which `heard` are patches."""
        base = self.base(x, positions, attend[BASE])
        base = torch.where(audio[:, None], self.lattice(base), base)
        # Where nothing is to be turned, all is at position 0.
        at = torch.zeros_like(positions) if self.config.residual_lm_no_rope else positions
        joined = self.joined(torch.cat((base, heard), -1))
        return base, self.residual(joined, at, attend[RESIDUAL])

    def conditioning(self, base: Tensor, residual: Tensor) -> Tensor:
        """What the solver is told: [rows, dim] each -> [rows, 2, inner]."""
        return torch.stack((self.base_conditioning(base), self.residual_conditioning(residual)), 1)

    def stops(self, base: Tensor) -> Tensor:
        """Whether a patch is the last: [rows, dim], of what it is made of -> [rows] bool."""
        go_on, stop = self.stop(nn.functional.silu(self.stop_rise(base))).unbind(-1)
        return stop > go_on


def lm_config(c: VoxcpmConfig, layers: int, turns: RopeConfig) -> DecoderConfig:
    """A language model's stack of blocks."""
    lm = c.lm_config
    return DecoderConfig(
        dim=lm.hidden_size,
        layers=layers,
        heads=lm.num_attention_heads,
        kv_heads=lm.num_key_value_heads,
        head_dim=lm.head_dim,
        hidden=lm.intermediate_size,
        eps=lm.rms_norm_eps,
        rope=turns,
    )


def sources(net: VoxcpmNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = named(net, _NAMES)
    found |= decoder_sources(net.base.config, "base.", "base_lm.")
    found |= decoder_sources(net.residual.config, "residual.", "residual_lm.")
    encoder = net.encoder.decoder.config
    found |= decoder_sources(encoder, "encoder.decoder.", "feat_encoder.encoder.")
    solver = net.solver.decoder.config
    return found | decoder_sources(solver, "solver.decoder.", "feat_decoder.estimator.decoder.")


def adapted_sources(net: VoxcpmNet) -> dict[str, Source]:
    """Those of modules that adapters may name."""
    return {name: one for name, one in sources(net).items() if name.startswith(_ADAPTED)}


def load_net(checkpoint: Path, device: str, dtype: str) -> VoxcpmNet:
    """The talker of a checkpoint folder; raises CheckpointError."""
    net = unfilled(VoxcpmNet, load_config(checkpoint)).to(getattr(torch, dtype))
    filled(net, sources(net), Shards.of(checkpoint), device=device)
    net.solver.freeze()
    return net
