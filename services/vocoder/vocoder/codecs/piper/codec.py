"""Piper's generator in the engine: exact state within a sentence, begun anew with each.

A frame's samples depend on so many frames to either side of it as the network reaches, within its
sentence. What it looks ahead is held back, at a sentence's end until the next one has as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.piper import HOP, PiperConfig
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import Array, Field
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Work
from vocoder.codecs.margins import Margins
from vocoder.codecs.piper.net import Generator

BEGINS: Final = "begins"
# Convolutions over windows of other lengths round otherwise, by half a step at the most.
_TOLERANCE: Final = 1


@dataclass(eq=False)
class Stream:
    """told: of the speaker. frame: the next one. kept: margins of a sentence that has begun. sound:
    samples that are final and not yet due.
    """

    told: Tensor | None
    frame: int
    kept: Sequence[Tensor] | None
    sound: Array


class PiperCodec(Codec):
    """A loaded generator. speakers: what it is told of each, [speakers, channels, 1]."""

    def __init__(
        self, name: str, config: PiperConfig, net: Generator, speakers: Tensor | None
    ) -> None:
        self._net, self._told = net, speakers
        self._device = net.conv_pre.weight.device
        self._numbers, sizes = config.speakers(), net.sizes
        self.spec = CodecSpec(
            name,
            "piper",
            config.audio.sample_rate,
            HOP,
            {"z": Field((sizes.latent,), "f4"), BEGINS: Field((), "u1", 2)},
            lag_samples=sizes.lag,
            context_frames=sizes.context + ceil(sizes.lag / HOP),
            tolerance=_TOLERANCE,
            voices=config.voices(),
        )

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        number = self._numbers.get(request.voice)
        if number is None:
            raise UnknownVoice(f"this codec has no voice {request.voice!r}", param="voice")
        told = None if self._told is None else self._told[number : number + 1]
        # A state that is opened late has no frames for what its predecessor held back.
        unknown = frame * HOP - self.spec.samples(frame, final=False)
        return Stream(told, frame, None, np.zeros(unknown, np.float32))

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        advanced = [self._advanced(work.state, work) for work in batch]
        given = []
        for work, (kept, sound) in zip(batch, advanced, strict=True):
            stream: Stream = work.state
            due = self._due(stream.frame, work)
            stream.frame, stream.kept, stream.sound = stream.frame + len(work), kept, sound[due:]
            given.append(Decoded(sound[:due]))
        return given

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _due(self, frame: int, work: Work) -> int:
        """Samples that come out with a work from `frame` on."""
        samples = self.spec.samples
        return samples(frame + len(work), final=work.final) - samples(frame, final=False)

    def _advanced(self, stream: Stream, work: Work) -> tuple[Sequence[Tensor] | None, Array]:
        """Margins behind the work, and all samples that are final by then and were not given."""
        kept, parts = stream.kept, [stream.sound]
        for first, last, ends in _parts(work, begun=kept is not None):
            z = torch.from_numpy(work.frames["z"][first:last].T.copy())[None].to(self._device)
            margins = Margins(kept, ends=ends)
            parts.append(self._net(z, stream.told, margins).cpu().numpy())
            kept = None if ends else margins.kept
        return kept, np.concatenate(parts)


def _parts(work: Work, *, begun: bool) -> Iterator[tuple[int, int, bool]]:
    """Frames of one sentence each: from where to where, and whether it ends with them. A sentence
    that has `begun` may end without any.
    """
    starts = np.flatnonzero(work.frames[BEGINS]).tolist()
    edges = sorted({0, *starts, len(work)})
    if begun and ((not len(work) and work.final) or 0 in starts):
        yield 0, 0, True
    for first, last in pairwise(edges):
        yield first, last, work.final or last < len(work)
