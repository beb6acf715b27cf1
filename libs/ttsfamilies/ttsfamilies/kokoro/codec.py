"""Kokoro in the engine: whole segments, prepared piece by piece and then given out.

A frame says which symbol of the segment it is of, its pitch and energy, the row of the voice's
table, and how many frames follow. Nothing outlives a segment: a successor begins with one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Array, Arrays, Field, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.windowed import Noise, keyed
from ttsfamilies.kokoro.generator import KokoroSound, Pieces, finished, load_net
from ttsfamilies.kokoro.sizes import HALVES, SAMPLE_RATE, Voices, frame_of

# Of a first segment: two seconds.
_USUAL_FRAMES: Final = 80
# Multiply-adds of a step on one segment: some 30 ms of one core.
_STEP: Final = 1_000_000_000


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> KokoroCodec:
    """A checkpoint's folder; raises CheckpointError."""
    net = load_net(folder, how.where)
    return KokoroCodec(name, net, Voices.load(folder, net.config))


@dataclass(eq=False)
class Stream:
    """frame: the next one. pieces: the work on what comes next. sound: samples that are ready."""

    noise: Noise
    pack: Array
    frame: int
    pieces: Pieces | None = None
    sound: Tensor = field(default_factory=lambda: torch.zeros(0))


class KokoroCodec(Codec):
    """A loaded decoder and generator, with the voices of its checkpoint."""

    usual = _USUAL_FRAMES

    def __init__(self, name: str, net: KokoroSound, voices: Voices) -> None:
        self._net, self._voices = net, voices
        self._device = next(net.parameters()).device
        self.spec = CodecSpec(
            name,
            "kokoro",
            SAMPLE_RATE,
            net.config.frame_samples,
            {**frame_of(net.config), "place": Field((), "i4")},
            context_frames=0,
            voices=voices.listed,
            left="left",
        )

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        width = self._net.config.style_dim
        return Stream(keyed(request.seed), self._voices.pack(request.voice)[:, :width], frame)

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        given = [
            self._prepared(work) if work.segment is not None else self._heard(work)
            for work in batch
        ]
        for work in batch:
            stream: Stream = work.state
            stream.frame += len(work)
            stream.sound = stream.sound[len(work) * self.spec.samples_per_frame :]
        return given

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _prepared(self, work: Work) -> Decoded:
        """A piece of the work on a segment."""
        stream: Stream = work.state
        assert work.segment is not None
        pieces = stream.pieces or self._pieces(stream, work.segment, stream.frame)
        stream.pieces = None  # work that failed begins anew
        prepared = False
        try:
            done_work = 0
            while done_work < _STEP:
                done_work += next(pieces)
            stream.pieces = pieces
        except StopIteration as done:
            stream.sound, prepared = done.value, True
        return Decoded(np.zeros(0, np.float32), prepared=prepared)

    def _heard(self, work: Work) -> Decoded:
        """The samples of frames; segments that were not prepared are computed at once."""
        stream: Stream = work.state
        wanted = len(work) * self.spec.samples_per_frame
        if len(stream.sound) < wanted:
            at = list(_segments(work.frames))
            parts = [self._pieces(stream, part, stream.frame + first) for first, part in at]
            stream.sound = torch.cat([finished(pieces) for pieces in parts])
        return Decoded(stream.sound[:wanted].cpu().numpy())

    def _pieces(self, stream: Stream, frames: Arrays, first: int) -> Pieces:
        """The work on a segment; raises MalformedMessage for frames that are none."""
        ids, durations = symbols(frames)
        row = int(frames["row"][0])
        if len(ids) > len(stream.pack) + 2 or row >= len(stream.pack):
            raise MalformedMessage("a segment of more symbols than a voice's table has")
        count, per_frame = rows(frames), self.spec.samples_per_frame
        curves = frames["curves"].reshape(count, HALVES, -1).transpose(1, 0, 2)
        begin, samples = first * per_frame, count * per_frame
        return self._net.pieces(
            self._tensor(ids),
            self._tensor(durations),
            self._tensor(curves.reshape(HALVES, -1)),
            self._tensor(stream.pack[row]),
            lambda harmonic: stream.noise(harmonic, begin, samples, self._device),
        )

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def example_frames(self, count: int) -> Arrays:
        return example(self.spec, count)


def symbols(frames: Arrays) -> tuple[Array, Array]:
    """Symbols of a segment and the frames of each, int64."""
    begins = np.flatnonzero(np.diff(frames["place"], prepend=-1))
    durations = np.diff(begins, append=rows(frames))
    return frames["symbol"][begins].astype(np.int64), durations


def example(spec: CodecSpec, frames: int) -> dict[str, Array]:
    """A segment of so many frames of silence."""
    found = {name: one.zeros(frames) for name, one in spec.frame.items()}
    found["left"] = np.arange(frames, dtype=np.int16)[::-1].copy()
    found["place"] = np.arange(frames, dtype=np.int32) // 3
    return found


def _segments(frames: Arrays) -> Iterator[tuple[int, Arrays]]:
    """Each segment of frames that are whole ones, and its first frame."""
    first = 0
    for last in np.flatnonzero(frames["left"] == 0).tolist():
        yield first, cut(frames, first, last + 1)
        first = last + 1
    if first < rows(frames):
        yield first, cut(frames, first, rows(frames))
