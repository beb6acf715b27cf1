"""Text rows and curves to samples, a segment at a time, in pieces of bounded work.

Every residual block of the generator is normed over the whole segment, so that its first sample
needs all of it. A piece is some steps of one convolution at the most; other work may be done
between two. Names of modules are those of published checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.shares import in_shares
from ttscommon.engine.nn.adain import (
    AdaIN1d,
    AdainResBlk1d,
    NormedConv1d,
    NormedConvTranspose1d,
    published,
)
from ttscommon.engine.nn.blocks import ChannelNorm
from ttscommon.engine.nn.weights import Shards, Source, filled, unfilled
from ttsfamilies.kokoro.sizes import KokoroConfig, load_config
from ttsfamilies.kokoro.source import HARMONICS, Spectrum, Voicing

Pieces: TypeAlias = Generator[int, None, Tensor]
"""Yields the multiply-adds of each piece of work, as far as they count; returns the result."""

Drawn: TypeAlias = Callable[[int], Tensor]
# What a sample of the source, and of a harmonic's noise, counts for.
_SAMPLE: Final = 2000
# Multiply-adds of such steps.
_WORK: Final = 500_000_000
# In which it is shared among processors.
_PARTS: Final = 4
_NOISE_KERNELS: Final = (7, 11)
_NOISE_DILATIONS: Final = (1, 3, 5)
_SLOPE: Final = 0.1
# Of the last activation, torch's own.
_LAST_SLOPE: Final = 0.01
_TALKERS: Final = ("bert.", "bert_encoder.", "predictor.")


class TextEncoder(nn.Module):
    """Symbols of a segment to what each of their frames is told."""

    def __init__(self, c: KokoroConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(c.n_token, c.hidden_dim)
        kernel = c.text_encoder_kernel_size
        self.cnn = nn.ModuleList(
            nn.Sequential(
                NormedConv1d(c.hidden_dim, c.hidden_dim, kernel, padding=(kernel - 1) // 2),
                ChannelNorm(c.hidden_dim),
                nn.LeakyReLU(0.2),
            )
            for _ in range(c.n_layer)
        )
        self.lstm = nn.LSTM(c.hidden_dim, c.hidden_dim // 2, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor) -> Tensor:
        """[symbols] int64 -> [1, hidden_dim, symbols]."""
        x = self.embedding(ids)[None].mT
        for layer in self.cnn:
            x = layer(x)
        return self.lstm(x.mT)[0].mT


class StyledResidual(nn.Module):
    """Three pairs of normed convolutions with Snake activations, each around a residual."""

    def __init__(
        self, channels: int, kernel: int, dilations: tuple[int, ...], style_dim: int
    ) -> None:
        super().__init__()
        ones, count = torch.ones(1, channels, 1), len(dilations)
        self.convs1 = nn.ModuleList(_around(channels, kernel, dilation) for dilation in dilations)
        self.convs2 = nn.ModuleList(_around(channels, kernel, 1) for _ in dilations)
        self.adain1 = nn.ModuleList(AdaIN1d(style_dim, channels) for _ in dilations)
        self.adain2 = nn.ModuleList(AdaIN1d(style_dim, channels) for _ in dilations)
        self.alpha1 = nn.ParameterList(nn.Parameter(ones.clone()) for _ in range(count))
        self.alpha2 = nn.ParameterList(nn.Parameter(ones.clone()) for _ in range(count))

    def pieces(self, x: Tensor, style: Tensor) -> Pieces:
        """[1, channels, steps] -> the same."""
        first = zip(self.adain1, self.alpha1, self.convs1, strict=True)
        second = zip(self.adain2, self.alpha2, self.convs2, strict=True)
        for one, other in zip(first, second, strict=True):
            y = yield from _normed(x, style, *one)
            y = yield from _normed(y, style, *other)
            x = y.add_(x)
        return x


def _around(channels: int, kernel: int, dilation: int) -> NormedConv1d:
    around = (kernel - 1) * dilation // 2
    return NormedConv1d(channels, channels, kernel, dilation=dilation, padding=around)


def _normed(x: Tensor, style: Tensor, norm: nn.Module, alpha: Tensor, conv: nn.Module) -> Pieces:
    """Norm, Snake (x + sin^2(a x) / a; Liu et al., 2020) and convolution."""
    assert isinstance(norm, AdaIN1d)
    assert isinstance(conv, nn.Conv1d)
    scale, shift = norm.affine(x, style)
    inverse = 1 / alpha

    def active(part: Tensor) -> Tensor:
        y = (part * scale).add_(shift)
        sine = (y * alpha).sin_()
        return y.add_(sine.mul_(sine).mul_(inverse))

    out = torch.empty_like(x)
    steps, around = x.shape[2], int(conv.padding[0])
    most = max(64, _WORK // conv.weight.numel())

    @torch.inference_mode()  # of each thread
    def convolved(start: int, end: int) -> None:
        low, high = max(0, start - around), min(steps, end + around)
        padded = (around - (start - low), around - (high - end))
        part = nn.functional.pad(active(x[..., low:high]), padded)
        out[..., start:end] = nn.functional.conv1d(
            part, conv.weight, conv.bias, dilation=conv.dilation
        )

    for start in range(0, steps, most):
        count = min(most, steps - start)
        # The same parts on any number of processors: their lengths decide the last bits.
        size = count if x.is_cuda else -(-count // _PARTS)

        def run(first: int, last: int, at: int = start, size: int = size) -> None:
            for begin in range(first, last, size):
                convolved(at + begin, at + min(begin + size, last))

        in_shares(count, size, run)
        yield count * conv.weight.numel()
    return out


class IstftGenerator(nn.Module):
    """Two upsampling stages, each with a branch of the source, and an inverse STFT."""

    def __init__(self, c: KokoroConfig) -> None:
        super().__init__()
        g = c.istftnet
        bins, widths = g.gen_istft_n_fft + 2, [g.upsample_initial_channel // 2**i for i in range(3)]
        self.m_source = Voicing(g.half_samples)
        self.spectrum = Spectrum(g.gen_istft_n_fft, g.gen_istft_hop_size)
        self.rates = g.upsample_rates
        self.ups = nn.ModuleList(
            NormedConvTranspose1d(
                widths[i], widths[i + 1], kernel, rate, padding=(kernel - rate) // 2
            )
            for i, (rate, kernel) in enumerate(
                zip(g.upsample_rates, g.upsample_kernel_sizes, strict=True)
            )
        )
        stride, style = g.upsample_rates[1], c.style_dim
        first = nn.Conv1d(bins, widths[1], 2 * stride, stride, padding=(stride + 1) // 2)
        self.noise_convs = nn.ModuleList((first, nn.Conv1d(bins, widths[2], 1)))
        self.noise_res = nn.ModuleList(
            StyledResidual(width, kernel, _NOISE_DILATIONS, style)
            for width, kernel in zip(widths[1:], _NOISE_KERNELS, strict=True)
        )
        kinds = list(zip(g.resblock_kernel_sizes, g.resblock_dilation_sizes, strict=True))
        self.resblocks = nn.ModuleList(
            StyledResidual(width, *kind, style) for width in widths[1:] for kind in kinds
        )
        self.conv_post = NormedConv1d(widths[2], bins, 7, padding=3)

    def pieces(self, x: Tensor, style: Tensor, source: Tensor) -> Pieces:
        """[1, channels, halves of frames] and the source's spectrum -> [samples]."""
        count = len(self.resblocks) // len(self.ups)
        for i, up in enumerate(self.ups):
            branch = yield from _pieces(self.noise_res[i], self.noise_convs[i](source), style)
            x = up(nn.functional.leaky_relu(x, _SLOPE))
            if i == len(self.ups) - 1:
                x = nn.functional.pad(x, (1, 0), mode="reflect")
            x = branch.add_(x)
            yield _work(up, x) // self.rates[i]
            total = torch.zeros_like(x)
            for j in range(i * count, (i + 1) * count):
                total += yield from _pieces(self.resblocks[j], x, style)
            x = total / count
        x = self.conv_post(nn.functional.leaky_relu(x, _LAST_SLOPE))
        return self.spectrum.inverse(x[0])


def _work(net: nn.Module, out: Tensor) -> int:
    """Multiply-adds of a network that runs once a step of what it gives."""
    return out.shape[-1] * sum(parameter.numel() for parameter in net.parameters())


def _pieces(block: nn.Module, x: Tensor, style: Tensor) -> Pieces:
    assert isinstance(block, StyledResidual)
    return block.pieces(x, style)


class KokoroDecoder(nn.Module):
    """Text rows and curves at the frame rate, and then the generator."""

    def __init__(self, c: KokoroConfig) -> None:
        super().__init__()
        style, width, last = c.style_dim, c.decoder_dim, c.istftnet.upsample_initial_channel
        told = width + c.decoder_residual + 2
        self.encode = AdainResBlk1d(c.hidden_dim + 2, width, style)
        self.decode = nn.ModuleList(AdainResBlk1d(told, width, style) for _ in range(3))
        self.decode.append(AdainResBlk1d(told, last, style, doubles=True))
        self.F0_conv = NormedConv1d(1, 1, 3, stride=2, padding=1)
        self.N_conv = NormedConv1d(1, 1, 3, stride=2, padding=1)
        self.asr_res = nn.Sequential(NormedConv1d(c.hidden_dim, c.decoder_residual, 1))
        self.generator = IstftGenerator(c)

    def pieces(self, asr: Tensor, curves: Tensor, style: Tensor, source: Tensor) -> Pieces:
        """[1, hidden_dim, frames], [2, 2 * frames] and the source's spectrum -> [samples]."""
        curve = torch.cat((self.F0_conv(curves[None, :1]), self.N_conv(curves[None, 1:])), 1)
        x = self.encode(torch.cat((asr, curve), 1), style)
        yield _work(self.encode, x)
        told = torch.cat((self.asr_res(asr), curve), 1)
        for block in self.decode:
            x = block(torch.cat((x, told), 1), style)
            yield _work(block, x)
        return (yield from self.generator.pieces(x, style, source))


class KokoroSound(nn.Module):
    """The networks of the vocoder's stage."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self.config = config
        self.text_encoder = TextEncoder(config)
        self.decoder = KokoroDecoder(config)

    def pieces(
        self, ids: Tensor, durations: Tensor, curves: Tensor, style: Tensor, noise: Drawn
    ) -> Pieces:
        """A segment -> [samples].

        ids, durations: [symbols] int64. curves: [2, 2 * frames], pitch in Hz and energy. style:
        [style_dim]. noise: of a harmonic, [samples], standard normal.
        """
        asr = self.text_encoder(ids).repeat_interleave(durations, 2)
        yield _work(self.text_encoder, ids[None])
        generator, drawn = self.decoder.generator, list[Tensor]()
        for harmonic in range(HARMONICS):
            drawn.append(noise(harmonic))
            yield len(drawn[0]) * _SAMPLE
        source = generator.m_source(curves[0], torch.stack(drawn))
        yield len(source) * _SAMPLE
        source = generator.spectrum(source)
        return (yield from self.decoder.pieces(asr, curves, style, source))


def finished(pieces: Pieces) -> Tensor:
    """The result of all pieces, at once."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            return done.value


def sources(net: KokoroSound, inner: str = "module.") -> dict[str, Source]:
    """Every parameter's published tensors. inner: what their names have behind the network's."""
    text = published(net.text_encoder, f"text_encoder.{inner}")
    sound = published(net.decoder, f"decoder.{inner}")
    found = {f"text_encoder.{key}": source for key, source in text.items()}
    return found | {f"decoder.{key}": source for key, source in sound.items()}


def load_net(folder: Path, device: str = "cpu") -> KokoroSound:
    """The networks in a checkpoint's folder, in float32; raises CheckpointError."""
    net = unfilled(KokoroSound, load_config(folder))
    return filled(net, sources(net), Shards.of(folder), others=_TALKERS, device=device)
