"""The talker's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field

from talker.engine.scheduler import PolicyName, StepLimits
from ttscommon.process.settings import Names, StageSettings
from ttsfamilies.base.talker.options import MOST_RANK

# Listeners from which on streams that are well supplied share steps.
_COMPANY: Final = 4


class TalkerSettings(StageSettings):
    """Read from ANTIPHON_... variables; see StageSettings."""

    # A step reads all weights, however many streams are in it.
    on_a_device: ClassVar[Mapping[str, int]] = {"slots": 256, "batch_streams": 256}

    kv_blocks: int | None = Field(default=None, ge=64)
    """Blocks of 16 positions in the KV cache; by default 1,024 on a CPU."""
    kv_bytes: int | None = Field(default=None, ge=1 << 20)
    """The same in bytes, which counts first; by default most of a device's free memory."""
    device_sharers: int = Field(default=1, ge=1, le=64)
    """Processes of engines that share this one's GPU, told by `antiphon up`: the KV cache takes its
    part of the free memory, in any order of starts.
    """
    prefix_blocks: int | None = Field(default=None, ge=0)
    """Blocks of the KV cache that are kept for prompts that begin alike; by default as many as are
    free. 0 shares nothing.
    """
    batch_positions: int = Field(default=512, ge=16)
    """Positions of prompts and frames that one engine step may compute."""
    policy: PolicyName = "online"
    """Who goes first in a step: `online` serves deadlines, `offline` fills steps, `first_come` and
    `round_robin` are there to be compared with.
    """
    initial_codec_chunk_frames: int | None = Field(default=None, ge=1, le=100)
    """Frames of a stream's first chunk; the model's own by default."""
    codec_chunk_frames: int | None = Field(default=None, ge=1, le=500)
    """Frames of its later chunks; the model's own by default."""
    drafts: bool = True
    """Steps may try several frames where the model has guesses and it pays; the frames stay the
    same.
    """
    lexicon_dir: Path = Path("voices/vesper")
    """Where the English lexicon is, for voices that bring none."""
    codec_dir: Path | None = None
    """Where the codec is, if it is published by itself; some talkers encode recordings with it."""
    weights: Literal["auto", "bfloat16", "float16", "int8", "fp8"] | None = None
    """What the products of a language model keep their weights in; by default float32 on a CPU and
    bfloat16 on a GPU. `auto` takes two bytes on a CPU where they lose nothing, `int8` one byte with
    a scale for each output, and `fp8` likewise on a GPU.
    """
    late_text: Literal["wait", "pad"] = "wait"
    """What a model that is told text a token a step does when text is late: `wait` for it, or `pad`
    and go on when the listener would run dry.
    """
    adapters: int = Field(default=0, ge=0, le=256)
    """Low-rank adapters (LoRA) that the talker holds at once; 0 serves none. On a device their
    places are made at the start, each as large as the highest rank.
    """
    adapter_rank: int = Field(default=MOST_RANK, ge=1, le=1024)
    """Highest rank of an adapter."""
    adapter_bytes: int = Field(default=2 << 30, ge=1 << 20)
    """Memory that all adapters take together, and the largest file of one."""
    adapter_dir: Path | None = None
    """A folder with a folder for each adapter, by whose name requests ask for it."""
    voice_adapters: Names = ()
    """Voices of the model that are spoken with an adapter of the folder unless a request asks for
    another, as VOICE=ADAPTER, separated by commas.
    """
    runaway_guard: bool = True
    """Utterances that lose their text are drawn again, or left, where a request does not say
    otherwise. Off, they go on to the model's limits.
    """
    text_timeout_s: float = Field(default=120.0, gt=0.0)
    """Text that stays away for so long is taken to be complete, as where a gateway died."""

    @property
    def limits(self) -> StepLimits:
        """What one engine step may hold, and who may share it."""
        return StepLimits(self.batch_streams, self.batch_positions, company=_COMPANY)
