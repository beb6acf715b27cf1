"""HiFT: mel frames to sound, by a source of harmonics and an inverse transform (Li et al., 2023).

Names of modules are those of published checkpoints. CosyVoice 3's is causal: its convolutions look
back alone, but for the first of each network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.adain import NormedConv1d, NormedConvTranspose1d
from ttsfamilies.cosyvoice.s3_flow.sizes import DILATIONS, HOP, HiftSizes

_SLOPE: Final = 0.1
_LAST_SLOPE: Final = 0.01
_LIMIT: Final = 0.99
_MOST: Final = 1e2
_TINY: Final = 1e-9
_PITCH_LAYERS: Final = 5


class InputRange(NamedTuple):
    """Steps of a layer, both ends within."""

    first: int
    last: int


class Around(NormedConv1d):
    """A convolution that gives as many steps as it is shown.

    back: steps before the present one that it sees; the others of its taps lie ahead.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, dilation: int = 1, back: int | None = None
    ) -> None:
        super().__init__(inputs, outputs, kernel, dilation=dilation)
        reach = (kernel - 1) * dilation
        back = reach // 2 if back is None else back
        self._around = (back, reach - back)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(nn.functional.pad(x, self._around))

    def sees(self, steps: InputRange) -> InputRange:
        """The steps of its input that these of its output depend on."""
        back, ahead = self._around
        return InputRange(steps.first - back, steps.last + ahead)


class PlainSnake(nn.Module):
    """x + sin(a x)^2 / a (Liu et al., 2020)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        alpha = self.alpha[:, None]
        return x + torch.sin(x * alpha).square() / (alpha + _TINY)


class Residual(nn.Module):
    """Three pairs of convolutions, each around a residual."""

    def __init__(self, channels: int, kernel: int, *, causal: bool) -> None:
        super().__init__()

        def conv(dilation: int) -> Around:
            back = (kernel - 1) * dilation if causal else None
            return Around(channels, channels, kernel, dilation, back)

        self.convs1 = nn.ModuleList(conv(dilation) for dilation in DILATIONS)
        self.convs2 = nn.ModuleList(conv(1) for _ in DILATIONS)
        self.activations1 = nn.ModuleList(PlainSnake(channels) for _ in DILATIONS)
        self.activations2 = nn.ModuleList(PlainSnake(channels) for _ in DILATIONS)

    def forward(self, x: Tensor) -> Tensor:
        first = zip(self.activations1, self.convs1, strict=True)
        second = zip(self.activations2, self.convs2, strict=True)
        for (one, wide), (other, narrow) in zip(first, second, strict=True):
            x = x + narrow(other(wide(one(x))))
        return x

    def sees(self, steps: InputRange) -> InputRange:
        """See Around."""
        for conv in (*self.convs1, *self.convs2):
            steps = cast(Around, conv).sees(steps)
        return steps


class Stretched(NormedConv1d):
    """Each step repeated, then a convolution that looks back."""

    def __init__(self, inputs: int, outputs: int, kernel: int, rate: int) -> None:
        super().__init__(inputs, outputs, kernel)
        self._rate = rate

    def forward(self, x: Tensor) -> Tensor:
        wide = x.repeat_interleave(self._rate, 2)
        return super().forward(nn.functional.pad(wide, (self.kernel_size[0] - 1, 0)))

    def sees(self, steps: InputRange) -> InputRange:
        """See Around."""
        return InputRange(
            (steps.first - self.kernel_size[0] + 1) // self._rate, steps.last // self._rate
        )


class Spread(NormedConvTranspose1d):
    """A transposed convolution that gives `rate` steps for each."""

    def __init__(self, inputs: int, outputs: int, kernel: int, rate: int) -> None:
        super().__init__(inputs, outputs, kernel, rate, padding=(kernel - rate) // 2)

    def sees(self, steps: InputRange) -> InputRange:
        """See Around."""
        (kernel,), (rate,) = self.kernel_size, self.stride
        cut = (kernel - rate) // 2
        return InputRange(-(-(steps.first + cut - kernel + 1) // rate), (steps.last + cut) // rate)


class Thinned(nn.Conv1d):
    """The source's spectrum at a stage's rate."""

    def __init__(self, inputs: int, outputs: int, rate: int, *, causal: bool) -> None:
        super().__init__(inputs, outputs, 1 if rate == 1 else 2 * rate, rate)
        around = rate // 2 if rate > 1 else 0
        self._around = (rate - 1, 0) if causal else (around, around)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(nn.functional.pad(x, self._around))

    def sees(self, steps: InputRange) -> InputRange:
        """See Around."""
        (kernel,), (rate,), back = self.kernel_size, self.stride, self._around[0]
        return InputRange(steps.first * rate - back, steps.last * rate - back + kernel - 1)


class Pitch(nn.Module):
    """Mel frames to a pitch in Hz."""

    def __init__(self, c: HiftSizes) -> None:
        super().__init__()
        first = Around(c.mels, c.pitch_width, *((4, 1, 0) if c.causal else (3,)))
        back = 2 if c.causal else None
        others = (Around(c.pitch_width, c.pitch_width, 3, 1, back) for _ in range(1, _PITCH_LAYERS))
        convs = {str(2 * i): conv for i, conv in enumerate((first, *others))}
        self.condnet = nn.ModuleDict(convs)
        self.classifier = nn.Linear(c.pitch_width, 1)

    def forward(self, mel: Tensor) -> Tensor:
        """[streams, mels, frames] -> [streams, frames]."""
        x = mel
        for conv in self.condnet.values():
            x = nn.functional.elu(conv(x))
        found: Tensor = self.classifier(x.mT)
        return found[..., 0].abs()

    def sees(self, steps: InputRange) -> InputRange:
        """See Around."""
        for conv in self.condnet.values():
            steps = cast(Around, conv).sees(steps)
        return steps


class Reach(NamedTuple):
    """Mel frames before and behind a frame that its sound depends on, and that its pitch does."""

    back: int
    ahead: int
    pitch_back: int
    pitch_ahead: int


def _all_of(spans: Sequence[InputRange]) -> InputRange:
    return InputRange(min(one.first for one in spans), max(one.last for one in spans))


class Hift(nn.Module):
    """The generator and its predictor of pitch."""

    def __init__(self, sizes: HiftSizes) -> None:
        super().__init__()
        c = self.sizes = sizes
        bins, causal, rates = c.n_fft + 2, c.causal, c.rates
        widths = [c.width // 2**i for i in range(len(rates) + 1)]
        self.f0_predictor = Pitch(c)
        self.m_source = nn.ModuleDict({"l_linear": nn.Linear(c.harmonics, 1)})
        first = (5, 1, 0) if causal else (7,)
        self.conv_pre = Around(c.mels, c.width, *first)
        self.ups = nn.ModuleList(
            (Stretched if causal else Spread)(widths[i], widths[i + 1], kernel, rate)
            for i, (rate, kernel) in enumerate(zip(rates, c.kernels, strict=True))
        )
        left = [math.prod(rates[i + 1 :]) for i in range(len(rates))]
        self.source_downs = nn.ModuleList(
            Thinned(bins, width, rate, causal=causal)
            for width, rate in zip(widths[1:], left, strict=True)
        )
        self.source_resblocks = nn.ModuleList(
            Residual(width, kernel, causal=causal)
            for width, kernel in zip(widths[1:], c.sources, strict=True)
        )
        self.resblocks = nn.ModuleList(
            Residual(width, kernel, causal=causal) for width in widths[1:] for kernel in c.blocks
        )
        self.conv_post = Around(widths[-1], bins, 7, 1, 6 if causal else None)

    def source(self, harmonics: Tensor) -> Tensor:
        """[harmonics, samples] -> [samples]."""
        linear = cast(nn.Linear, self.m_source["l_linear"])
        return torch.tanh(linear(harmonics.mT))[:, 0]

    def decode(self, mel: Tensor, source: Tensor) -> Tensor:
        """[streams, mels, frames] and [streams, samples] of them -> [streams, samples]."""
        spectrum = self._spectrum(source)
        x, count = self.conv_pre(mel), len(self.sizes.blocks)
        for i, (up, down, block) in enumerate(
            zip(self.ups, self.source_downs, self.source_resblocks, strict=True)
        ):
            x = up(nn.functional.leaky_relu(x, _SLOPE))
            if i == len(self.ups) - 1:
                x = nn.functional.pad(x, (1, 0), mode="reflect")
            x = x + block(down(spectrum))
            parts = [other(x) for other in self.resblocks[i * count : (i + 1) * count]]
            x = torch.stack(parts).sum(0) / count
        x = self.conv_post(nn.functional.leaky_relu(x, _LAST_SLOPE))
        return self._sound(x).clamp(-_LIMIT, _LIMIT)

    @property
    def reach(self) -> Reach:
        """From its layers, backwards from the samples of frame 0."""
        c = self.sizes
        frame, half = HOP * math.prod(c.rates), c.n_fft // 2
        steps = InputRange(-((half - 1) // HOP), (frame - 1 + half) // HOP)
        spectrum, count = list[InputRange](), len(c.blocks)
        steps = self.conv_post.sees(steps)
        for i in reversed(range(len(self.ups))):
            blocks = [cast(Residual, b).sees(steps) for b in self.resblocks[i * count :][:count]]
            steps = _all_of(blocks)
            of_source = cast(Residual, self.source_resblocks[i]).sees(steps)
            spectrum.append(cast(Thinned, self.source_downs[i]).sees(of_source))
            if i == len(self.ups) - 1:  # its steps come one later, see `decode`
                steps = InputRange(steps.first - 1, steps.last - 1)
            steps = cast(Spread, self.ups[i]).sees(steps)
        mel, seen = self.conv_pre.sees(steps), _all_of(spectrum)
        # Of the last frame's samples the second half follows from the next one's pitch.
        source = InputRange(seen.first * HOP - half, seen.last * HOP + half - 1 + frame // 2)
        whole = _all_of([mel, InputRange(source.first // frame, source.last // frame)])
        pitch = self.f0_predictor.sees(InputRange(0, 0))
        return Reach(-whole.first, whole.last, -pitch.first, pitch.last)

    def _window(self, like: Tensor) -> Tensor:
        return torch.hann_window(self.sizes.n_fft, dtype=like.dtype, device=like.device)

    def _spectrum(self, samples: Tensor) -> Tensor:
        """[streams, samples] -> [streams, 2 * bins, samples / HOP + 1]: real parts, then imaginary
        ones.
        """
        window = self._window(samples)
        found = torch.stft(samples, len(window), HOP, window=window, return_complex=True)
        return torch.cat((found.real, found.imag), 1)

    def _sound(self, x: Tensor) -> Tensor:
        """The inverse, of log magnitudes and of what sines are the phases."""
        magnitude, phase = x.chunk(2, 1)
        found = torch.polar(magnitude.exp().clamp(max=_MOST), torch.sin(phase))
        window = self._window(x)
        return torch.istft(found, len(window), HOP, window=window)
