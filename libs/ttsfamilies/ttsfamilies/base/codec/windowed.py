"""Codecs whose streams carry no state, or none beyond a sentence, and their noise by a seed."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, prod
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.wire.fields import Array, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work
from ttsfamilies.base.sampling.noise import mix, shift, signed

# The decoder's noise as a pure function of (seed, block, absolute step). A vocoder that takes a
# stream over, or decodes a window again, adds the noise that was heard.


# (block, first step, steps, device) -> [steps] of standard normal noise.
Noise = Callable[[int, int, int, torch.device], Tensor]


def keyed(seed: int) -> Noise:
    """The noise of a request."""

    def noise(block: int, first: int, steps: int, device: torch.device) -> Tensor:
        at = torch.arange(first, first + steps, device=device)
        key = mix(mix(torch.tensor(signed(seed), device=device)) ^ block)
        angle, size = (_uniform(mix(key + 2 * at + part)) for part in (0, 1))
        return torch.sqrt(-2.0 * torch.log(size)) * torch.cos(2.0 * math.pi * angle)

    return noise


def keyed_uniform(seed: int) -> Noise:
    """Likewise, evenly between 0 and 1."""

    def noise(block: int, first: int, steps: int, device: torch.device) -> Tensor:
        at = torch.arange(first, first + steps, device=device)
        key = mix(mix(torch.tensor(signed(seed), device=device)) ^ block)
        return _uniform(mix(key + 2 * at))

    return noise


def _uniform(value: Tensor) -> Tensor:
    return (shift(value, 40).float() + 0.5) * 2.0**-24


# Codecs that are not causal, in windows that are exact.
#
# A frame is decoded again with its successors, as often as its samples depend on what is still to
# come: a stream keeps its last frames and no other state. How far a sample depends on frames to
# either side follows from the network's sizes.


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
    `dac.WaveDecoder`.

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
    """frame: the next one. sent: samples so far. recent: [frames, codes] int64, before `frame`.
    seed: the request's, for what is made of noise.
    """

    frame: int
    sent: int
    recent: Tensor
    seed: int


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
    """A loaded decoder, of codes to samples. They say who speaks; the voice is not looked at.

    spec: see windowed_spec.
    """

    def __init__(self, net: nn.Module, spec: CodecSpec) -> None:
        self._net, self.spec = net, spec

    def sound(self, codes: Tensor, stream: WindowStream, first: int) -> Tensor:
        """[frames, codes] int64 of a stream, from its frame `first` on -> their samples, float32,
        as if silence surrounded them.
        """
        return self._net(codes.to(next(self._net.parameters()).device))

    def frames(self, codes: Tensor) -> Tensor:
        """What of logged codes [frames, codes] int64 is decoded."""
        return codes

    def open(self, request: SpeechRequest, frame: int = 0) -> WindowStream:
        none = torch.zeros(0, *self.spec.frame["codes"].shape, dtype=torch.int64)
        return WindowStream(frame, self.spec.samples(frame, final=False), none, request.seed)

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
        kept = whole[max(0, len(whole) - self.spec.context_frames - self.spec.delay_frames) :]
        return replace(old, frame=end, sent=upto, recent=kept), sound

    def _window(self, codes: Tensor, stream: WindowStream, last: int) -> Tensor:
        """The samples that the stream has not sent, up to `last`; codes: with its recent ones."""
        begin = stream.frame - len(stream.recent)
        start, first = begin * self.spec.samples_per_frame, stream.sent
        # A state that was opened late has no frames for what its predecessor held back.
        unknown = torch.zeros(max(0, min(start, last) - first))
        if start >= last:
            return unknown
        sound = self.sound(self.frames(codes), stream, begin)
        return torch.cat((unknown.to(sound), sound[max(0, first - start) : last - start]))


class DelayedCodec(WindowedCodec):
    """A decoder of frames that is shown rows of delayed codes, as their talker logs them.

    Ids that are no codes count as 0. Rows whose frames lack codes are kept with the recent ones.
    """

    def __init__(self, net: nn.Module, spec: CodecSpec, ids: int) -> None:
        """spec: of frames. ids: of a row, the decoder's codes and those that are none."""
        field = spec.frame["codes"]
        self._pattern, self._limit = DelayPattern.even(*field.shape), field.limit or ids
        frame = {"codes": Field(field.shape, field.dtype, ids)}
        super().__init__(net, replace(spec, frame=frame, delay_frames=self._pattern.most))

    def frames(self, codes: Tensor) -> Tensor:
        whole = torch.from_numpy(self._pattern.frames(codes.numpy()))
        return whole.masked_fill((whole < 0) | (whole >= self._limit), 0)

    def example(self, request: SpeechRequest) -> WindowStream:
        """Of which the next row completes a frame."""
        stream = self.open(request)
        self.decode([Work(stream, self.example_frames(self._pattern.most), final=False)])
        return stream


# Codecs that begin anew with each sentence, and carry state within one.
#
# A frame's samples depend on so many frames to either side of it as the network reaches, within
# its sentence. What it looks ahead is held back, at a sentence's end until the next one has as
# much.


BEGINS: Final = "begins"
"""The field that says whether a sentence begins with a frame."""
FLAG: Final = Field((), "u1", 2)
# Convolutions over windows of other lengths round otherwise, by half a step at the most.
TOLERANCE: Final = 1

T = TypeVar("T")
Kept: TypeAlias = Sequence[Tensor] | None


@dataclass(eq=False)
class SentenceStream(Generic[T]):
    """told: of the speaker. frame: the next one. kept: of a sentence that has begun. sound: samples
    that are final and not yet due.
    """

    told: T
    frame: int
    kept: Kept
    sound: Array

    @classmethod
    def at(cls, told: T, frame: int, spec: CodecSpec) -> SentenceStream[T]:
        """A state that is opened late has no frames for what its predecessor held back."""
        unknown = frame * spec.samples_per_frame - spec.samples(frame, final=False)
        return cls(told, frame, None, np.zeros(unknown, np.float32))


class SentenceCodec(Codec, Generic[T]):
    """field: of a frame, [values] each. device: where its network is. pieces: in which a sentence's
    frames come, as far as that is known: sizes that are new take longer.
    """

    field: str
    device: torch.device
    pieces: Sequence[int] = ()

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        super().warm_up(shapes)
        state = self.example(self.asked())
        for count in self.pieces:
            self.decode([Work(state, self.example_frames(count), final=False)])
        self.close(state)

    @abstractmethod
    def advance(
        self, x: Tensor, told: T, kept: Kept, first: int, *, ends: bool
    ) -> tuple[Tensor, Kept]:
        """[1, values, frames] of a sentence, from the request's frame `first` on, behind what was
        kept of the sentence, None where it begins -> samples that are final by then, and what to
        keep. ends: no frame of it follows.
        """

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        advanced = [self._advanced(work.state, work) for work in batch]
        given = []
        for work, (kept, sound) in zip(batch, advanced, strict=True):
            stream: SentenceStream[T] = work.state
            due = due_of(self.spec, stream.frame, work)
            stream.frame, stream.kept, stream.sound = stream.frame + len(work), kept, sound[due:]
            given.append(Decoded(sound[:due]))
        return given

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _advanced(self, stream: SentenceStream[T], work: Work) -> tuple[Kept, Array]:
        """What is kept behind the work, and all samples that are final and were not given."""
        kept, parts = stream.kept, [stream.sound]
        for first, last, ends in parts_of(work, begun=kept is not None):
            x = torch.from_numpy(work.frames[self.field][first:last].T.copy())[None]
            at = stream.frame + first
            found, kept = self.advance(x.to(self.device), stream.told, kept, at, ends=ends)
            kept = None if ends else kept
            parts.append(found.cpu().numpy())
        return kept, np.concatenate(parts)


def due_of(spec: CodecSpec, frame: int, work: Work) -> int:
    """Samples that come out with a work from `frame` on."""
    return spec.samples(frame + len(work), final=work.final) - spec.samples(frame, final=False)


def parts_of(work: Work, *, begun: bool) -> Iterator[tuple[int, int, bool]]:
    """Frames of one sentence each: from where to where, and whether it ends with them. A sentence
    that has `begun` may end without any.
    """
    starts = np.flatnonzero(work.frames[BEGINS]).tolist()
    edges = sorted({0, *starts, len(work)})
    if begun and ((not len(work) and work.final) or 0 in starts):
        yield 0, 0, True
    for first, last in pairwise(edges):
        yield first, last, work.final or last < len(work)
