"""VITS without its generator (Kim et al., 2021): text encoder, durations, and the flow.

Written after the paper and the published graphs. Modules have the names of the published tensors.
Everything is [rows, channels, time] with a mask [rows, 1, time], 0 where a row is padded.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, softplus

from ttscommon.engine.nn.blocks import ChannelNorm

# Rational-quadratic splines (Durkan et al., 2019), inverse, the identity outside -5 .. 5.


BINS: Final = 10
_BOUND: Final = 5.0
_LEAST: Final = 1e-3
"""Of a bin's width and height, and of a slope."""


def _edges(sizes: Tensor) -> Tensor:
    """[..., BINS] unnormalised sizes to [..., BINS + 1] edges from -5 to 5."""
    shares = _LEAST + (1 - _LEAST * BINS) * sizes.softmax(-1)
    edges = pad(shares.cumsum(-1), (1, 0)) * (2 * _BOUND) - _BOUND
    edges[..., 0], edges[..., -1] = -_BOUND, _BOUND
    return edges


def inverse_spline(y: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor) -> Tensor:
    """The x [...] that a monotonous spline maps to y [...].

    widths, heights: [..., BINS] of its bins; slopes: [..., BINS - 1] at the edges between them; all
    before they are normalised.
    """
    inside = (y >= -_BOUND) & (y <= _BOUND)
    xs, ys = _edges(widths), _edges(heights)
    steep = _LEAST + softplus(pad(slopes, (1, 1), value=math.log(math.exp(1 - _LEAST) - 1)))
    within = y.clamp(-_BOUND, _BOUND)[..., None]
    # The last edge is moved so that the bound belongs to the last bin.
    tops = torch.cat((ys[..., :-1], ys[..., -1:] + 1e-6), -1)
    at = ((within >= tops).sum(-1, keepdim=True) - 1).clamp(0, BINS - 1)
    left, right = (xs.gather(-1, i) for i in (at, at + 1))
    low, high = (ys.gather(-1, i) for i in (at, at + 1))
    before, after = (steep.gather(-1, i) for i in (at, at + 1))
    wide, tall = right - left, high - low
    slope, over = tall / wide, within - low
    bend = before + after - 2 * slope
    a = over * bend + tall * (slope - before)
    b = tall * before - over * bend
    c = -slope * over
    root = 2 * c / (-b - (b * b - 4 * a * c).sqrt())
    return torch.where(inside, (root * wide + left)[..., 0], y)


REACH: Final = 4
"""Distances up to which attention knows how far away an id is."""
_SPLINES: Final = (7, 5, 3)
_COUPLINGS: Final = (6, 4, 2, 0)


class RelativeAttention(nn.Module):
    """Of all ids to all ids, with learnt keys and values for short distances (Shaw et al.)."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads, size = heads, channels // heads
        self.emb_rel_k = nn.Parameter(torch.zeros(1, 2 * REACH + 1, size))
        self.emb_rel_v = nn.Parameter(torch.zeros(1, 2 * REACH + 1, size))
        self.conv_q = nn.Conv1d(channels, channels, 1)
        self.conv_k = nn.Conv1d(channels, channels, 1)
        self.conv_v = nn.Conv1d(channels, channels, 1)
        self.conv_o = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        parts = (conv(x) for conv in (self.conv_q, self.conv_k, self.conv_v))
        q, k, v = (part.unflatten(1, (self.heads, -1)).mT for part in parts)
        q = q * q.shape[-1] ** -0.5
        ids = torch.arange(x.shape[-1], device=x.device)
        near = ids[None] - ids[:, None] + REACH  # [query, key]
        known = (near >= 0) & (near <= 2 * REACH)
        near = near.clamp(0, 2 * REACH).expand(*q.shape[:2], -1, -1)
        scores = q @ k.mT + (q @ self.emb_rel_k[0].T).gather(-1, near) * known
        weights = scores.masked_fill(mask[:, None] == 0, -1e4).softmax(-1)
        around = ids[:, None] + torch.arange(2 * REACH + 1, device=x.device)
        close = pad(weights, (REACH, REACH)).gather(-1, around.expand(*q.shape[:2], -1, -1))
        mixed = weights @ v + close @ self.emb_rel_v[0]
        return self.conv_o(mixed.mT.flatten(1, 2))


class FeedForward(nn.Module):
    def __init__(self, channels: int, filters: int, kernel: int) -> None:
        super().__init__()
        self.conv_1 = nn.Conv1d(channels, filters, kernel, padding="same")
        self.conv_2 = nn.Conv1d(filters, channels, kernel, padding="same")

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.conv_2(torch.relu(self.conv_1(x * mask)) * mask) * mask


class Encoder(nn.Module):
    """Layers of attention and convolutions, each normed behind its sum."""

    def __init__(self, layers: int, channels: int, filters: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.attn_layers = nn.ModuleList(RelativeAttention(channels, heads) for _ in range(layers))
        self.norm_layers_1 = nn.ModuleList(ChannelNorm(channels) for _ in range(layers))
        self.ffn_layers = nn.ModuleList(
            FeedForward(channels, filters, kernel) for _ in range(layers)
        )
        self.norm_layers_2 = nn.ModuleList(ChannelNorm(channels) for _ in range(layers))

    def layer(self, index: int, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm_layers_1[index](x + self.attn_layers[index](x, mask))
        out: Tensor = self.norm_layers_2[index](x + self.ffn_layers[index](x, mask))
        return out * mask


class PriorEncoder(nn.Module):
    """encoder: its layers are passes of the engine. proj: to a mean and a log deviation."""

    def __init__(self, symbols: int, channels: int, latent: int, encoder: Encoder) -> None:
        super().__init__()
        self.emb = nn.Embedding(symbols, channels)
        self.encoder = encoder
        self.proj = nn.Conv1d(channels, 2 * latent, 1)

    def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[rows, ids] to [rows, channels, ids]."""
        scaled: Tensor = self.emb(ids) * math.sqrt(self.emb.embedding_dim)
        return scaled.mT * mask


class Separable(nn.Module):
    """Depthwise convolutions that reach three times further each, with channels mixed between."""

    def __init__(self, channels: int, layers: int, kernel: int) -> None:
        super().__init__()
        self.convs_sep = nn.ModuleList(
            nn.Conv1d(
                channels, channels, kernel, padding="same", dilation=kernel**i, groups=channels
            )
            for i in range(layers)
        )
        self.convs_1x1 = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(layers))
        self.norms_1 = nn.ModuleList(ChannelNorm(channels) for _ in range(layers))
        self.norms_2 = nn.ModuleList(ChannelNorm(channels) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for apart, mixed, one, two in zip(
            self.convs_sep, self.convs_1x1, self.norms_1, self.norms_2, strict=True
        ):
            x = x + gelu(two(mixed(gelu(one(apart(x * mask))))))
        return x * mask


class SplineFlow(nn.Module):
    """Half of the channels through a spline that follows from the other half and the text."""

    def __init__(self, channels: int, layers: int, kernel: int) -> None:
        super().__init__()
        self.pre = nn.Conv1d(1, channels, 1)
        self.convs = Separable(channels, layers, kernel)
        self.proj = nn.Conv1d(channels, 3 * BINS - 1, 1)

    def inverse(self, z: Tensor, mask: Tensor, text: Tensor) -> Tensor:
        first, second = z.chunk(2, 1)
        told = self.proj(self.convs(self.pre(first) + text, mask)) * mask
        scale = math.sqrt(self.pre.out_channels)
        widths, heights, slopes = told.mT.split((BINS, BINS, BINS - 1), -1)
        second = inverse_spline(second[:, 0], widths / scale, heights / scale, slopes)[:, None]
        return torch.cat((first, second), 1) * mask


class AffineFlow(nn.Module):
    """scale: [2, 1], exp of the negative log scale."""

    def __init__(self) -> None:
        super().__init__()
        self.m = nn.Parameter(torch.zeros(2, 1))
        self.scale = nn.Parameter(torch.ones(2, 1))


class Durations(nn.Module):
    """How long an id lasts is drawn: noise through flows that the text conditions."""

    def __init__(self, text: int, channels: int, speaker: int, layers: int, kernel: int) -> None:
        super().__init__()
        self.pre = nn.Conv1d(text, channels, 1)
        self.convs = Separable(channels, layers, kernel)
        self.proj = nn.Conv1d(channels, channels, 1)
        self.cond = nn.Conv1d(speaker, channels, 1) if speaker else None
        flows: dict[str, nn.Module] = {"0": AffineFlow()}
        flows |= {f"{n}": SplineFlow(channels, layers, kernel) for n in _SPLINES}
        self.flows = nn.ModuleDict(flows)

    def forward(self, x: Tensor, mask: Tensor, noise: Tensor, speaker: Tensor | None) -> Tensor:
        """noise: [rows, 2, ids]. Returns [rows, ids], the log of frames."""
        x = self.pre(x)
        if self.cond is not None:
            x = x + self.cond(speaker)
        x = self.proj(self.convs(x, mask)) * mask
        z = noise * mask
        for number in _SPLINES:
            spline = self.flows[f"{number}"]
            assert isinstance(spline, SplineFlow)
            z = spline.inverse(z.flip(1), mask, x)
        affine = self.flows["0"]
        assert isinstance(affine, AffineFlow)
        z = (z.flip(1) - affine.m) * affine.scale * mask
        return z[:, 0]


class WaveNet(nn.Module):
    """Gated convolutions whose outputs are summed."""

    def __init__(self, channels: int, layers: int, kernel: int, speaker: int) -> None:
        super().__init__()
        wide = 2 * channels
        self.in_layers = nn.ModuleList(
            nn.Conv1d(channels, wide, kernel, padding="same") for _ in range(layers)
        )
        self.res_skip_layers = nn.ModuleList(
            nn.Conv1d(channels, wide if i < layers - 1 else channels, 1) for i in range(layers)
        )
        self.cond_layer = nn.Conv1d(speaker, wide * layers, 1) if speaker else None

    def forward(self, x: Tensor, mask: Tensor, speaker: Tensor | None) -> Tensor:
        told = (
            None
            if self.cond_layer is None
            else self.cond_layer(speaker).chunk(len(self.in_layers), 1)
        )
        summed = torch.zeros_like(x)
        for index, (gates, out) in enumerate(
            zip(self.in_layers, self.res_skip_layers, strict=True)
        ):
            gated = gates(x) if told is None else gates(x) + told[index]
            first, second = gated.chunk(2, 1)
            given = out(torch.tanh(first) * torch.sigmoid(second))
            if index < len(self.in_layers) - 1:
                rest, given = given.chunk(2, 1)
                x = (x + rest) * mask
            summed = summed + given
        return summed * mask


class Coupling(nn.Module):
    def __init__(self, latent: int, channels: int, layers: int, kernel: int, speaker: int) -> None:
        super().__init__()
        self.pre = nn.Conv1d(latent // 2, channels, 1)
        self.enc = WaveNet(channels, layers, kernel, speaker)
        self.post = nn.Conv1d(channels, latent // 2, 1)

    def inverse(self, z: Tensor, mask: Tensor, speaker: Tensor | None) -> Tensor:
        first, second = z.chunk(2, 1)
        mean = self.post(self.enc(self.pre(first) * mask, mask, speaker)) * mask
        return torch.cat((first, (second - mean) * mask), 1)


class Flow(nn.Module):
    """From the prior to the generator's latents. Its convolutions are `nn.flat` ones."""

    def __init__(self, latent: int, channels: int, layers: int, kernel: int, speaker: int) -> None:
        super().__init__()
        self.flows = nn.ModuleDict(
            {f"{n}": Coupling(latent, channels, layers, kernel, speaker) for n in _COUPLINGS}
        )
        self._reach = layers * (kernel // 2)  # of a coupling
        self.reach = len(_COUPLINGS) * self._reach

    def forward(
        self, z: Tensor, mask: Tensor, speaker: Tensor | None, around: tuple[int, int] = (0, 0)
    ) -> Tensor:
        """[rows, latent, frames] to the same without the frames `around`, before and behind: each
        coupling computes as many of those as the ones after it still depend on.
        """
        z = z[:, :, None].contiguous(memory_format=torch.channels_last)
        mask, told = mask[:, :, None], None if speaker is None else speaker[..., None]
        before, after = around
        for done, number in enumerate(_COUPLINGS, start=1):
            coupling = self.flows[f"{number}"]
            assert isinstance(coupling, Coupling)
            z = coupling.inverse(z.flip(1), mask, told)
            needed = (len(_COUPLINGS) - done) * self._reach
            low, high = (max(0, side - needed) for side in (before, after))
            before, after = before - low, after - high
            z, mask = (x[..., low : x.shape[-1] - high] for x in (z, mask))
        return z[:, :, 0]


class Vits(nn.Module):
    """All of a voice that the talker computes. emb_g: speakers, where there are several."""

    def __init__(
        self, enc_p: PriorEncoder, dp: Durations, flow: Flow, emb_g: nn.Embedding | None
    ) -> None:
        super().__init__()
        self.enc_p, self.dp, self.flow, self.emb_g = enc_p, dp, flow, emb_g

    def speaker(self, numbers: Tensor) -> Tensor | None:
        """[rows] to [rows, channels, 1]."""
        if self.emb_g is None:
            return None
        return self.emb_g(numbers)[..., None]
