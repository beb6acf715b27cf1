"""Streams over the decoder: batches of unequal pieces, references in front, windows.

By default a stream carries its exact state for ever. With `Windows` its state is built anew at
every window from a little left context: an approximation, the official package's own, whose
memory is bounded, so that a successor needs no more than one window and its context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ttsfamilies.base.codec.carried import CarriedState, decode_together
from ttsfamilies.qwen3_tts.codec.net import CodecDecoder


@dataclass(frozen=True)
class Windows:
    """Frames decoded together, and frames decoded again in front of them. Positive, in frames."""

    size: int = 300
    context: int = 25

    def __post_init__(self) -> None:
        if self.size < 1 or self.context < 0:
            raise ValueError("a window holds frames, its context no fewer than none")

    def replay_from(self, frame: int) -> int:
        """The first frame that a state needs to be fed before it can decode `frame`."""
        return max(0, frame // self.size * self.size - self.context)

    def begins_at(self, frame: int) -> bool:
        """Whether `frame` is the first of a window that is not the first."""
        return frame > 0 and frame % self.size == 0

    def spans(self, frame: int, count: int) -> Iterator[tuple[int, int, int]]:
        """As `cut`, with the first frame to decode before each: a window's context, or itself."""
        for first, stop in self.cut(frame, count):
            yield self.replay_from(first) if self.begins_at(first) else first, first, stop

    def cut(self, frame: int, count: int) -> Iterator[tuple[int, int]]:
        """Frames `frame` .. `frame + count` as (first, last + 1), none across a window's end."""
        end = frame + count
        while frame < end:
            stop = min(end, (frame // self.size + 1) * self.size)
            yield frame, stop
            frame = stop


class CodecStream:
    """One stream: its state, and the frames that a next window would need.

    frame: the first one that it will be fed. It then knows nothing of those before; positions are
    counted from there, as only distances matter.
    """

    def __init__(self, net: CodecDecoder, windows: Windows | None = None, frame: int = 0) -> None:
        self.state = net.new_state()
        self.frame = frame
        self._net, self._windows = net, windows
        device = self.state.position.device
        self._recent = torch.zeros(0, net.config.num_quantizers, dtype=torch.int64, device=device)

    def snapshot(self) -> tuple[CarriedState, int, Tensor]:
        """All that it knows; tensors are never changed in place."""
        return self.state, self.frame, self._recent

    def go_back(self, known: tuple[CarriedState, int, Tensor]) -> None:
        """To what a snapshot holds."""
        self.state, self.frame, self._recent = known

    def pieces(self, codes: Tensor) -> Iterator[tuple[Tensor, int]]:
        """Codes [frames, codebooks] to decode one after the other, and frames of each to drop.

        Between two pieces the first must have been decoded: a window's end resets the state.
        """
        if not len(codes):
            return
        if self._windows is None:
            yield codes, 0
            self.frame += len(codes)
            return
        whole = torch.cat((self._recent, codes))
        begin = self.frame - len(self._recent)
        for wanted, first, stop in self._windows.spans(self.frame, len(codes)):
            start = max(wanted, begin)  # a stream that began in the window has less context
            if self._windows.begins_at(first):
                self.state = self._net.new_state()
            yield whole[start - begin : stop - begin], first - start
            self.frame = stop
        kept = min(self._windows.context, len(whole))
        self._recent = whole[len(whole) - kept :]


def advance(streams: Sequence[CodecStream], codes: Sequence[Tensor]) -> list[Tensor]:
    """Decode the next frames of several streams of one decoder; returns the samples of each."""
    net = streams[0]._net
    waiting = [stream.pieces(part) for stream, part in zip(streams, codes, strict=True)]
    found: list[list[Tensor]] = [[] for _ in streams]
    while True:
        round_ = [(i, piece) for i, parts in enumerate(waiting) if (piece := next(parts, None))]
        if not round_:
            return [torch.cat(parts) if parts else _silence(net) for parts in found]
        states = [streams[i].state for i, _ in round_]
        samples, after = decode_together(net, states, [part for _, (part, _) in round_])
        for (i, (_, dropped)), sound, state in zip(round_, samples, after, strict=True):
            streams[i].state = state
            found[i].append(sound[dropped * net.config.frame_samples :])


def _silence(net: CodecDecoder) -> Tensor:
    return net.before.weight.new_zeros(0)
