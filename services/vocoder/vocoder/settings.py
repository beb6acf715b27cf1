"""The vocoder's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pydantic import Field

from ttscommon.process.settings import StageSettings
from ttsfamilies.base.codec.options import DeviceLimits
from vocoder.engine.scheduler import BatchLimits

_STEP_S: Final = 0.4


class VocoderSettings(StageSettings):
    """Read from ANTIPHON_... variables; see StageSettings."""

    # No more frames a step than by default: a codec computes in float32, 32 frames take it some
    # 5 ms, and a step cannot be interrupted.
    on_a_device: ClassVar[Mapping[str, int]] = {"slots": 256, "batch_streams": 32}
    renamed: ClassVar[Mapping[str, str]] = {"ANTIPHON_PIECE_FRAMES": "ANTIPHON_STEP_FRAMES"}

    batch_streams: int = Field(default=16, ge=1, le=4096)
    """Streams of one engine step; by default 32 on a GPU."""
    batch_frames: int = Field(default=32, ge=1, le=65536)
    """Streams of a step times the longest window of it, at most; by default no fewer than twice
    `step_frames`. On a GPU 32 frames take a codec about 5 ms, and a step cannot be interrupted:
    more would delay the talker's.
    """
    step_frames: int = Field(default=16, ge=1, le=4096)
    """Frames of one stream in a step, at most; by default 0.4 s of them where those are more."""
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
    which there is none is computed again with every window. On a GPU all of it is taken at the
    start.
    """
    tensor_cores: bool = False
    """On a GPU, convolve on tensor cores, by three products of TF32 parts that keep what float32
    does. Of Qwen3-TTS's codec. Off, as no GPU has timed it.
    """
    gain_db: float = Field(default=0.0, ge=-20.0, le=20.0)
    """What brings voices to -20 LUFS whose checkpoint does not say it; measure some sentences of
    the model. It is the same in all vocoders of a model.
    """
    codes_timeout_s: float = Field(default=600.0, gt=0.0)
    """A request whose codes stay away for so long is given up."""

    @property
    def windows(self) -> tuple[int, int] | None:
        """Frames of a window and of its left context, where decoding is windowed."""
        if self.decode_chunk_frames is None:
            return None
        return self.decode_chunk_frames, self.decode_left_context_frames

    def limits(self, frame_rate_hz: float) -> BatchLimits:
        """What one engine step may hold. Of short frames it is more, unless it was set: a step
        costs the engine the same whatever its length.
        """
        frames, step = self.batch_frames, self.step_frames
        if "step_frames" not in self.model_fields_set:
            step = max(step, round(_STEP_S * frame_rate_hz))
        if "batch_frames" not in self.model_fields_set:
            frames = max(frames, 2 * step)
        return BatchLimits(self.batch_streams, frames, step, self.startup_share)

    @property
    def device_limits(self) -> DeviceLimits:
        """What a codec on a device is made for: all streams may leave with a launch in flight."""
        states = max(2 * self.slots, self.batch_streams)
        return DeviceLimits(states, self.batch_streams, self.batch_frames, self.step_frames)
