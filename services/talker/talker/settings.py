"""The talker's settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from talker.engine.scheduler import PolicyName
from ttscommon.process.settings import StageSettings


class TalkerSettings(StageSettings):
    """Read from ANTIPHON_... variables; see StageSettings.

    Chunk sizes are the model's own unless given. `text_timeout_s`: text of a request that stays
    away for so long is taken to be complete. `late_text`: whether a model that is told text a token
    a step waits for text that is late, or goes on without it when the listener would run dry.
    `drafts`: whether steps may try several frames where a model has guesses and it pays.
    `draft_tries`, `draft_cents`: which guesses are taken for draws, see Leniency. Then every step
    tries several frames, and all talkers of a model must be told the same.
    `kv_blocks`, `kv_bytes`: the KV cache in blocks of 16 positions or, which counts first, bytes;
    by default most of a device's free memory, and 1,024 blocks on a CPU.
    """

    kv_blocks: int | None = Field(default=None, ge=64)
    kv_bytes: int | None = Field(default=None, ge=1 << 20)
    batch_positions: int = Field(default=512, ge=16)
    policy: PolicyName = "online"
    initial_codec_chunk_frames: int | None = Field(default=None, ge=1, le=100)
    codec_chunk_frames: int | None = Field(default=None, ge=1, le=500)
    drafts: bool = True
    draft_tries: int = Field(default=1, ge=1, le=8)
    draft_cents: float = Field(default=0.0, ge=0.0, le=400.0)
    late_text: Literal["wait", "pad"] = "wait"
    text_timeout_s: float = Field(default=120.0, gt=0.0)
