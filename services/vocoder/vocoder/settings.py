"""The vocoder's settings."""

from __future__ import annotations

from pydantic import Field

from ttscommon.settings import StageSettings
from vocoder.engine.scheduler import Limits


class VocoderSettings(StageSettings):
    """Read from ANTIPHON_... variables; see StageSettings.

    `batch_frames` bounds streams x longest piece of a step, `piece_frames` one stream's part.
    `codes_timeout_s`: a request whose codes stay away for so long is given up.
    """

    slots: int = Field(default=64, ge=1, le=8192)
    batch_streams: int = Field(default=16, ge=1, le=4096)
    batch_frames: int = Field(default=32, ge=1, le=65536)
    piece_frames: int = Field(default=16, ge=1, le=4096)
    startup_share: float = Field(default=0.5, gt=0.0, le=1.0)
    codes_timeout_s: float = Field(default=600.0, gt=0.0)

    @property
    def limits(self) -> Limits:
        """What one engine step may hold."""
        return Limits(self.batch_streams, self.batch_frames, self.piece_frames, self.startup_share)
