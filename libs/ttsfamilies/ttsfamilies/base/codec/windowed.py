"""Codecs that are not causal, in windows that are exact.

A frame is decoded again with its successors, as often as its samples depend on what is still to
come: a stream keeps its last frames and no other state.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Final

import torch
from torch import Tensor

from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work

# Receptive fields: how far to either side what a decoder gives depends on frames. No torch.


# Of kernels of seven: steps on either side, or before; and the dilations of residual units.
_AROUND: Final = 3
_BEFORE: Final = 2 * _AROUND
_DILATIONS: Final = (1, 3, 9)


def causal_frames(ratios: Sequence[int], rates: Sequence[int]) -> int:
    """Frames that the convolutions of a `CausalWave` look back, rounded up.

    In samples: six steps for each ConvNeXt at its rate, six for the first convolution, one for
    each transposed one, six times 1 + 3 + 9 for its residual units, six for the last.
    """
    whole = step = prod(ratios) * prod(rates)
    reach = 0
    for ratio in ratios:
        step //= ratio
        reach += _BEFORE * step
    reach += _BEFORE * step
    for rate in rates:
        reach += step
        step //= rate
        reach += _BEFORE * sum(_DILATIONS) * step
    return -(-(reach + _BEFORE) // whole)


def surrounding_samples(rates: Sequence[int]) -> int:
    """Samples before a frame's start and behind its end that the frame has a part in, by a
    `snake.WaveDecoder`.

    Three steps for the first convolution; half a stride and the three residual units for each
    block; three for the last convolution.
    """
    samples = _AROUND
    for rate in rates:
        samples = samples * rate + (rate + 1) // 2 + _AROUND * sum(_DILATIONS)
    return samples + _AROUND


def left_context(lag: int, samples: int, before: int | None = None) -> int:
    """See CodecSpec.context_frames: of frames of so many samples, `lag` of which are held back.

    before: frames that a frame's samples depend on; None where it looks back as far as ahead.
    """
    return ceil(2 * lag / samples) if before is None else before + ceil(lag / samples)


# Convolutions over windows of other lengths round otherwise, by far less than half a step.
_TOLERANCE: Final = 1


@dataclass
class WindowStream:
    """frame: the next one. sent: samples so far. recent: [frames, codes] int64, before `frame`."""

    frame: int
    sent: int
    recent: Tensor


def windowed_spec(
    name: str, family: str, rate: int, samples: int, reach: int, codes: Field
) -> CodecSpec:
    """Of a codec whose frames of `codes` have a part in `reach` samples on either side."""
    return CodecSpec(
        *(name, family, rate, samples, {"codes": codes}),
        lag_samples=reach,
        context_frames=left_context(reach, samples),
        tolerance=_TOLERANCE,
    )


class WindowedCodec(Codec):
    """Subclasses have a `windowed_spec`, and decode the window of a stream."""

    @abstractmethod
    def sound(self, codes: Tensor, stream: WindowStream, first: int) -> Tensor:
        """[frames, codes] int64 of a stream, from its frame `first` on -> their samples, float32,
        as if silence surrounded them.
        """

    def open(self, request: SpeechRequest, frame: int = 0) -> WindowStream:
        del request
        none = torch.zeros(0, *self.spec.frame["codes"].shape, dtype=torch.int64)
        return WindowStream(frame, self.spec.samples(frame, final=False), none)

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        results = [self._advanced(work) for work in batch]
        for work, (stream, _) in zip(batch, results, strict=True):
            work.state.__dict__.update(vars(stream))
        return [Decoded(sound.cpu().numpy()) for _, sound in results]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _advanced(self, work: Work) -> tuple[WindowStream, Tensor]:
        """The stream behind the work's frames, and the samples that are final by then."""
        old: WindowStream = work.state
        codes = torch.from_numpy(work.frames["codes"].astype("int64"))
        whole, end = torch.cat((old.recent, codes)), old.frame + len(codes)
        upto = max(old.sent, self.spec.samples(end, final=work.final))
        sound = torch.zeros(0)
        if upto > old.sent:
            sound = self._window(whole, old, upto)
        assert self.spec.context_frames is not None
        kept = whole[max(0, len(whole) - self.spec.context_frames) :]
        return replace(old, frame=end, sent=upto, recent=kept), sound

    def _window(self, codes: Tensor, stream: WindowStream, last: int) -> Tensor:
        """The samples that the stream has not sent, up to `last`; codes: with its recent ones."""
        begin = stream.frame - len(stream.recent)
        start, first = begin * self.spec.samples_per_frame, stream.sent
        sound = self.sound(codes, stream, begin)
        # A state that was opened late has no frames for what its predecessor held back.
        unknown = sound.new_zeros(max(0, min(start, last) - first))
        return torch.cat((unknown, sound[max(0, first - start) : max(0, last - start)]))
