"""A deployment's settings for a codec: where, how large, how exact. No torch.

On a device work is padded to few shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ttscommon.engine.inflight import BatchSizes

if TYPE_CHECKING:
    from ttscommon.engine.device.device import Device


@dataclass(frozen=True)
class DeviceLimits:
    """states: streams that are open, or closed with a launch in flight. The others: see Limits."""

    states: int = 128
    streams: int = 16
    frames: int = 32
    stream_frames: int = 16

    def __post_init__(self) -> None:
        if min(self.streams, self.frames, self.stream_frames) < 1:
            raise ValueError("a step has room for something")
        if self.states < self.streams:
            raise ValueError("a step has no more streams than there are states")


@dataclass(frozen=True)
class CodecOptions:
    """windows: frames decoded together and left context, for families that can be windowed; None
    carries exact state. device: None is the CPU. limits: of a device. memory_bytes: for states that
    grow with their streams. tensor_cores: see VocoderSettings, for families that can.
    """

    windows: tuple[int, int] | None = None
    device: Device | None = None
    limits: DeviceLimits = field(default_factory=DeviceLimits)
    memory_bytes: int = 4 << 30
    tensor_cores: bool = False

    @property
    def where(self) -> str:
        """The device's name for torch."""
        return "cpu" if self.device is None else str(self.device.where)


ON_CPU: Final = CodecOptions()


class BatchShape(NamedTuple):
    """What a launch is padded to: rows, and frames of each."""

    rows: int
    frames: int


class Shapes:
    """Buckets of rows and frames.

    extra: frames that a family may decode beyond those of a piece, its tail or its left context.
    """

    def __init__(self, limits: DeviceLimits, extra: int = 0) -> None:
        self._limits, self._extra = limits, extra
        self._rows = BatchSizes.doubling(limits.streams)
        self._frames = BatchSizes.doubling(limits.stream_frames + extra)

    def expected(self) -> list[BatchShape]:
        """All that launches are padded to, the largest first."""
        every = [
            BatchShape(rows, frames)
            for frames in self._frames.sizes
            for rows in self._rows.sizes
            if rows <= self.most_rows(frames)
        ]
        return sorted(every, key=lambda s: -s.rows * s.frames)

    def fit(self, rows: int, frames: int) -> BatchShape:
        """The least that holds them; beyond all buckets, the next powers of two."""
        return BatchShape(
            self._rows.fit(rows) or _power(rows), self._frames.fit(max(1, frames)) or _power(frames)
        )

    def most_rows(self, frames: int) -> int:
        """How many rows of up to so many frames a launch takes, padding counted: no launch computes
        more frames than a step may have.
        """
        longest = max(1, self.fit(1, frames).frames - self._extra)
        room = self._limits.frames // longest
        return max(size for size in self._rows.sizes if size <= max(1, room))


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()
