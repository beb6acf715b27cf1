"""The talker's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from talker.engine.scheduler import PolicyName
from ttscommon.settings import ServiceSettings


class TalkerSettings(ServiceSettings):
    """Read from ANTIPHON_... variables; see ServiceSettings.

    `text_timeout_s`: text of a request that stays away for so long is taken to be complete.
    """

    engine: Literal["torch", "fake"] = "torch"
    model: str = Field(default="cantor", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    voice_dir: Path = Path("voices/cantor")
    slots: int = Field(default=32, ge=1, le=4096)
    kv_blocks: int = Field(default=1024, ge=64)
    batch_streams: int = Field(default=32, ge=1, le=4096)
    batch_positions: int = Field(default=512, ge=16)
    policy: PolicyName = "online"
    initial_codec_chunk_frames: int = Field(default=3, ge=1, le=100)
    codec_chunk_frames: int = Field(default=25, ge=1, le=500)
    text_timeout_s: float = Field(default=120.0, gt=0.0)
    fake_curve: Path | None = None
    threads: int = Field(default=1, ge=1, le=64)
