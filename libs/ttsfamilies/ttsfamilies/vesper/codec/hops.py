"""The vesper decoder for processors: a step of all streams in compiled calls; see `hops_numba`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import torch

from ttscommon.engine.kernels.convnext_numba import Floats, Ints, numbers
from ttscommon.engine.kernels.integer_products_numba import IntegerProduct, integers_of, stacked
from ttscommon.engine.kernels.vectors_numba import COLUMNS
from ttsfamilies.vesper.codec import hops_numba as hops
from ttsfamilies.vesper.codec.layers import BINS, WINDOWS, LateConvNeXt
from ttsfamilies.vesper.codec.net import HOPS_PER_FRAME, VesperDecoder
from ttsfamilies.vesper.codec.sound_numba import filter_rows

_REACH: Final = WINDOWS - 1


@dataclass
class HopState:
    """What a stream carries: arrays of `hops_numba.Carried`, and numbers of `DecoderState`."""

    arrays: Sequence[Floats]
    phase: int
    frame: int
    level: float
    span: float


class HopDecoder:
    """A `VesperDecoder` as it is now, for inference on a processor."""

    def __init__(self, decoder: VesperDecoder) -> None:
        """decoder: of float32 weights."""
        quiet = decoder.new_state()
        carried = (quiet.inputs, quiet.tails, quiet.f0, quiet.source, quiet.windows)
        self._quiet = [numbers(one) for one in carried]
        self._net, self._late = weights_of(decoder), decoder.config.late_frames
        self._frame_samples = decoder.config.frame_samples
        self._silence: Ints = decoder.silence.numpy()[None]
        self._window = numbers(decoder.synthesis.window)
        self._gain = numbers(decoder.synthesis.gain)

    def new_state(self, level: float = 0.0, span: float = 1.0, frame: int = 0) -> HopState:
        """See `VesperDecoder.new_state`."""
        return HopState(self._quiet, 0, frame, level, span)

    def step(
        self, codes: Sequence[Ints], states: Sequence[HopState], final: Sequence[bool]
    ) -> list[Floats]:
        """See `VesperDecoder.step`; codes: [frames, 4] of each stream."""
        given = [
            np.concatenate((c, self._silence.repeat(self._late * f, 0)))
            for c, f in zip(codes, final, strict=True)
        ]
        counts = [len(c) for c in given]
        early = [min(max(0, self._late - s.frame), n) for s, n in zip(states, counts, strict=True)]
        if not any(counts):
            return [np.empty(0, np.float32) for _ in states]
        streams = hops.Streams(
            np.concatenate(given),
            np.array(counts),
            np.array(early),
            np.array([state.level for state in states], np.float32),
            np.array([state.span for state in states], np.float32),
        )
        fields = zip(*(state.arrays for state in states), strict=True)
        inputs, tails, f0, source, windows = map(np.stack, fields)
        phases = np.array([state.phase for state in states])
        carried = hops.Carried(inputs, tails, f0, source, windows, phases)
        samples = self._decoded(streams, carried)
        arrays = inputs, tails, f0, source, windows
        for row, (state, count) in enumerate(zip(states, counts, strict=True)):
            state.arrays, state.phase = [array[row] for array in arrays], int(phases[row])
            state.frame += count
        ends = self._frame_samples * np.cumsum(streams.frames - streams.unheard)
        return np.split(samples, ends[:-1])

    def _decoded(self, streams: hops.Streams, carried: hops.Carried) -> Floats:
        """The samples that may be heard of all streams, and what they carry on."""
        begins = np.concatenate(([0], HOPS_PER_FRAME * np.cumsum(streams.frames)))
        skipped = np.maximum(0, HOPS_PER_FRAME * streams.unheard - _REACH)
        count = int(begins[-1] - skipped.sum())
        x = np.empty((begins[-1], len(self._net.norm_weight)), np.float32)
        parts = np.empty((count, len(self._net.head.bias)), np.float32)
        pulses = np.empty((count, len(self._window)), np.float32)
        window = self._window / np.float32(len(self._gain))
        hops.parts_of(self._net, streams, carried, begins, window, x, parts, pulses)
        spectra = torch.view_as_real(torch.fft.rfft(torch.from_numpy(pulses))).numpy()
        found = np.empty((count, BINS, 2), np.float32)
        filter_rows(parts, spectra, found)
        made = torch.fft.irfft(torch.view_as_complex(torch.from_numpy(found)), len(window)).numpy()
        heard = int((streams.frames - streams.unheard).sum())
        samples = np.empty(heard * self._frame_samples, np.float32)
        hops.added_up(streams, carried.windows, made, self._window, self._gain, samples)
        return samples


def fits(decoder: VesperDecoder) -> bool:
    """Whether the decoder's sizes are whole tiles."""
    c = decoder.config
    return c.dim % COLUMNS == 0 and c.expansion * c.dim % COLUMNS == 0


def weights_of(decoder: VesperDecoder) -> hops.Decoder:
    """As compiled steps take them."""
    c = decoder.config
    tables = hops.Tables(
        *(numbers(t) for t in (decoder.pitch_table, decoder.energy_table, decoder.text_table))
    )
    by_input = numbers(decoder.first.weight).reshape(c.dim, c.inputs, c.kernel)
    first = integers_of(by_input.transpose(0, 2, 1).reshape(c.dim, -1), numbers(decoder.first.bias))
    blocks = _blocks([cast(LateConvNeXt, block) for block in decoder.blocks])
    norm = numbers(decoder.norm.weight), numbers(decoder.norm.bias)
    return hops.Decoder(tables, first, blocks, *norm, _integers(decoder.head))


def _blocks(blocks: Sequence[LateConvNeXt]) -> hops.Blocks:
    rise, fall = (
        stacked([_integers(getattr(b, name)) for b in blocks]) for name in ("rise", "fall")
    )
    return hops.Blocks(
        np.stack([numbers(block.depthwise.weight[:, 0].T) for block in blocks]),
        np.stack([numbers(block.depthwise.bias) for block in blocks]),
        np.stack([numbers(block.norm.weight) for block in blocks]),
        np.stack([numbers(block.norm.bias) for block in blocks]),
        *(rise, fall),
        np.stack([numbers(block.scale) for block in blocks]),
        np.array([block.ahead for block in blocks]),
    )


def _integers(linear: torch.nn.Linear) -> IntegerProduct:
    return integers_of(numbers(linear.weight), numbers(linear.bias))
