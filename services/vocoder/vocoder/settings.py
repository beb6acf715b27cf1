"""The vocoder's settings."""

from __future__ import annotations

from pydantic import Field

from ttscommon.process.settings import StageSettings
from vocoder.codecs.room import Room
from vocoder.engine.scheduler import Limits


class VocoderSettings(StageSettings):
    """Read from ANTIPHON_... variables; see StageSettings.

    `batch_frames` bounds streams x longest piece of a step, `piece_frames` one stream's part.
    `decode_chunk_frames` and `decode_left_context_frames`: a codec that can be windowed builds its
    state anew at so many frames, from so many before; otherwise it carries its exact state.
    `codes_timeout_s`: a request whose codes stay away for so long is given up.
    """

    slots: int = Field(default=64, ge=1, le=8192)
    batch_streams: int = Field(default=16, ge=1, le=4096)
    batch_frames: int = Field(default=32, ge=1, le=65536)
    piece_frames: int = Field(default=16, ge=1, le=4096)
    startup_share: float = Field(default=0.5, gt=0.0, le=1.0)
    decode_chunk_frames: int | None = Field(default=None, ge=1, le=4096)
    decode_left_context_frames: int = Field(default=25, ge=0, le=4096)
    codes_timeout_s: float = Field(default=600.0, gt=0.0)

    @property
    def windows(self) -> tuple[int, int] | None:
        """Frames of a window and of its left context, where decoding is windowed."""
        if self.decode_chunk_frames is None:
            return None
        return self.decode_chunk_frames, self.decode_left_context_frames

    @property
    def limits(self) -> Limits:
        """What one engine step may hold."""
        return Limits(self.batch_streams, self.batch_frames, self.piece_frames, self.startup_share)

    @property
    def room(self) -> Room:
        """What a codec on a device is made for: all streams may leave with a launch in flight."""
        states = max(2 * self.slots, self.batch_streams)
        return Room(states, self.batch_streams, self.batch_frames, self.piece_frames)
