"""Codecs that begin anew with each sentence, and carry state within one.

A frame's samples depend on so many frames to either side of it as the network reaches, within its
sentence. What it looks ahead is held back, at a sentence's end until the next one has as much.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Array, Field
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work

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
    """field: of a frame, [values] each. device: where its network is."""

    field: str
    device: torch.device

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
