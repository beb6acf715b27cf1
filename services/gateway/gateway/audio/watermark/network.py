"""Perth in NumPy: spectra at any sample rate, and the networks over their frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_SLOPE: Final = np.float32(0.01)
_ENCODER: Final = "encoder.layers"
# How many times as many frames each of the three is told, by its name.
_DECODERS: Final = (
    ("decoder.slow_layers", 1.25),
    ("decoder.normal_layers", 1.0),
    ("decoder.fast_layers", 0.75),
)
# Below this share of the loudest frame's level, a frame is digital silence and says nothing.
_SILENT: Final = 0.05


class NoWatermark(Exception):
    """The weights are not there, or are others; the text says what to do."""


@dataclass(frozen=True)
class Convolutions:
    """Layers one behind the other: of each weights [taps, in, out] and bias [out]."""

    layers: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of(cls, tensors: Mapping[str, npt.NDArray[Any]], name: str) -> Convolutions:
        """The layers below `name`; raises NoWatermark where there is none."""
        layers: list[tuple[Floats, Floats]] = []
        while f"{name}.{len(layers)}.conv.weight" in tensors:
            prefix = f"{name}.{len(layers)}.conv"
            weight = np.asarray(tensors[f"{prefix}.weight"], np.float32)
            bias = np.asarray(tensors[f"{prefix}.bias"], np.float32)
            layers.append((np.ascontiguousarray(weight.transpose(2, 1, 0)), bias))
        if not layers:
            raise NoWatermark(f"the weights hold no {name}: they are not Perth's")
        return cls(tuple(layers))

    @property
    def reach(self) -> int:
        """Frames that a result needs on either side of its own."""
        return sum((len(weight) - 1) // 2 for weight, _ in self.layers)

    def __call__(self, x: Floats, *, padded: bool = False) -> Floats:
        """[frames, in] -> [frames - 2 reach, out]; padded: [frames, out], each layer hears zeros
        beyond the ends of its input.
        """
        for number, (weight, bias) in enumerate(self.layers, 1):
            reach = (len(weight) - 1) // 2
            y = _convolved(np.pad(x, ((reach, reach), (0, 0))) if padded else x, weight) + bias
            x = y if number == len(self.layers) else np.maximum(y, _SLOPE * y)
        return x


def _convolved(x: Floats, weight: Floats) -> Floats:
    frames = len(x) - len(weight) + 1
    y: Floats = x[:frames] @ weight[0]
    for tap in range(1, len(weight)):
        y += x[tap : tap + frames] @ weight[tap]
    return y


@dataclass(frozen=True)
class Perth:
    """What is added to levels [frames, bins], and what of it is heard."""

    encoder: Convolutions
    decoders: tuple[Convolutions, ...]

    @classmethod
    def of(cls, tensors: Mapping[str, npt.NDArray[Any]]) -> Perth:
        """Raises NoWatermark."""
        decoders = tuple(Convolutions.of(tensors, name) for name, _ in _DECODERS)
        return cls(Convolutions.of(tensors, _ENCODER), decoders)

    @classmethod
    def load(cls, file: Path) -> Perth:
        """Weights that `antiphon convert` wrote; raises NoWatermark."""
        try:
            from safetensors.numpy import load_file
        except ImportError:
            raise NoWatermark("the watermark needs: pip install safetensors") from None
        try:
            return cls.of(load_file(file))
        except OSError as error:
            raise NoWatermark(f"{file} cannot be read: {error.strerror}") from error

    @property
    def bins(self) -> int:
        """The lowest ones of a spectrum, which carry it."""
        return int(self.encoder.layers[0][0].shape[1])

    def heard(self, levels: Floats) -> float:
        """How sure it is that levels [frames, bins] carry the mark: 0 to 1, 0.5 is undecided."""
        loud = levels.sum(1)
        sounding = loud > _SILENT * loud.max(initial=0.0)
        if not sounding.any():
            return 0.0
        told = [
            _mean(decoder(_stretched(levels, factor), padded=True), _picked(sounding, factor))
            for decoder, (_, factor) in zip(self.decoders, _DECODERS, strict=True)
        ]
        trust, marks = np.array(told).T
        shares = np.exp(trust - trust.max())
        return float(np.clip((marks * shares).sum() / shares.sum(), 0.0, 1.0))


def _mean(out: Floats, sounding: npt.NDArray[np.bool_]) -> Floats:
    mean: Floats = out[sounding].mean(0)
    return mean


def _stretched(levels: Floats, factor: float) -> Floats:
    """So many times as many frames, by straight lines between those that there are."""
    frames = len(levels)
    at = np.linspace(0, frames - 1, int(frames * factor))
    low = np.minimum(at.astype(int), max(frames - 2, 0))
    share = (at - low)[:, None].astype(np.float32)
    high = np.minimum(low + 1, frames - 1)
    found: Floats = levels[low] * (1 - share) + levels[high] * share
    return found


def _picked(sounding: npt.NDArray[np.bool_], factor: float) -> npt.NDArray[np.bool_]:
    frames = len(sounding)
    count = int(frames * factor)
    return sounding[np.arange(count) * frames // count]


Spectra = npt.NDArray[np.complex64]

_WINDOW_S: Final = 0.064
_HOP_S: Final = 0.010
_SAMPLES: Final = 2048
_FLOOR: Final = 1e-9
_FLOOR_DB: Final = -180.0
_SPAN_DB: Final = 195.0


class SpectrumFrames:
    """Frames of `window` samples, `hop` apart, frame k in the middle of sample k * hop."""

    def __init__(self, sample_rate: int, bins: int) -> None:
        """bins: the lowest ones of each spectrum, which are all that is looked at."""
        self.window = 2 * round(sample_rate * _WINDOW_S / 2)
        self.hop = round(sample_rate * _HOP_S)
        self._bins = bins
        self._scale = np.float32(_SAMPLES / self.window)
        turns = 2 * np.pi * np.arange(self.window) / self.window
        self._shape: Floats = (0.5 - 0.5 * np.cos(turns)).astype(np.float32)
        self._overlap = self._overlapping()

    def spectra(self, samples: Floats) -> Spectra:
        """[samples] -> [frames, bins] of all whole frames, the first from the first sample on."""
        cut = np.lib.stride_tricks.sliding_window_view(samples, self.window)[:: self.hop]
        found = np.fft.rfft(cut * self._shape)[:, : self._bins]
        return (found * self._scale).astype(np.complex64)

    def sound(self, spectra: Spectra) -> Floats:
        """[frames, bins] -> [(frames - 1) * hop + window] samples, all frames added up."""
        whole = np.zeros((len(spectra), self.window // 2 + 1), np.complex64)
        whole[:, : self._bins] = spectra / self._scale
        frames = np.fft.irfft(whole, self.window).astype(np.float32) * self._shape
        made = np.zeros((len(spectra) - 1) * self.hop + self.window, np.float32)
        for number, frame in enumerate(frames):
            made[number * self.hop :][: self.window] += frame
        return made / self._overlap[np.arange(len(made)) % self.hop]

    def _overlapping(self) -> Floats:
        """[hop] the sum of all frames' squared shapes, for each place behind a frame's first."""
        turns = -(-self.window // self.hop)
        squares = np.zeros(turns * self.hop, np.float32)
        squares[: self.window] = self._shape**2
        summed: Floats = squares.reshape(turns, self.hop).sum(0)
        return summed


def levels(spectra: Spectra) -> Floats:
    """Logarithmic magnitudes: 0 is -180 dB, 1 is 15 dB."""
    decibels = 20 * np.log10(np.maximum(np.abs(spectra), _FLOOR))
    return ((decibels - _FLOOR_DB) / _SPAN_DB).astype(np.float32)


def raised(spectra: Spectra, by: Floats) -> Spectra:
    """What to add to spectra so that their levels are higher by so much."""
    gain = np.float32(10) ** (by * np.float32(_SPAN_DB / 20))
    return spectra * (gain - 1)
