"""The vocoder's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from ttscommon.process.settings import StageSettings
from vocoder.codecs.room import DeviceLimits
from vocoder.engine.scheduler import BatchLimits


class VocoderSettings(StageSettings):
    """Read from ANTIPHON_... variables; see StageSettings."""

    renamed: ClassVar[Mapping[str, str]] = {"ANTIPHON_PIECE_FRAMES": "ANTIPHON_STEP_FRAMES"}

    slots: int = Field(default=64, ge=1, le=8192)
    """Streams that this vocoder holds at once."""
    batch_streams: int = Field(default=16, ge=1, le=4096)
    """Streams of one engine step."""
    batch_frames: int = Field(default=32, ge=1, le=65536)
    """Streams of a step times the longest slice of it, at most."""
    step_frames: int = Field(default=16, ge=1, le=4096)
    """Frames of one stream in a step, at most."""
    startup_share: float = Field(default=0.5, gt=0.0, le=1.0)
    """Share of a step that is kept for streams without sound yet, where there are some."""
    decode_chunk_frames: int | None = Field(default=None, ge=1, le=4096)
    """Decode in windows of so many frames, for codecs that can; by default the exact state is
    carried.
    """
    decode_left_context_frames: int = Field(default=25, ge=0, le=4096)
    """Frames before a window that its state is built from."""
    state_mb: int = Field(default=4096, ge=1)
    """Memory, in MiB, for what streams of a codec carry that grows with each of them; a stream for
    which there is none is computed again with every stretch.
    """
    codes_timeout_s: float = Field(default=600.0, gt=0.0)
    """A request whose codes stay away for so long is given up."""

    @property
    def windows(self) -> tuple[int, int] | None:
        """Frames of a window and of its left context, where decoding is windowed."""
        if self.decode_chunk_frames is None:
            return None
        return self.decode_chunk_frames, self.decode_left_context_frames

    @property
    def limits(self) -> BatchLimits:
        """What one engine step may hold."""
        return BatchLimits(
            self.batch_streams, self.batch_frames, self.step_frames, self.startup_share
        )

    @property
    def room(self) -> DeviceLimits:
        """What a codec on a device is made for: all streams may leave with a launch in flight."""
        states = max(2 * self.slots, self.batch_streams)
        return DeviceLimits(states, self.batch_streams, self.batch_frames, self.step_frames)
