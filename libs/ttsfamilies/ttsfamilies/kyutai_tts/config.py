"""A Kyutai TTS checkpoint's config.json, with the names that Kyutai gives. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ttscommon.engine.checkpoint import checked_config
from ttscommon.engine.codec_sizes import head_problems, size_problems
from ttscommon.engine.delay_pattern import DelayPattern

FRAME_RATE_HZ: Final = 12.5
EPS: Final = 1e-8
# Voices that a prompt has room for; the learnt padding takes the place of those that are not there.
SPEAKERS: Final = 5
CONTROL, GUIDANCE, SPEAKER = "control", "cfg", "speaker_wavs"
# Of these a log tells in the bits of a number.
MOST_SILENT_STEPS: Final = 31
# Ids of the text: a word begins, nothing happens, the first speaker's turn begins.
NEW_WORD, PAD, MAIN = 0, 3, 1


@dataclass(frozen=True)
class TableSizes:
    """A condition that is one of some values."""

    n_bins: int
    dim: int
    possible_values: tuple[str, ...]
    tokenizer: Literal["noop"] = "noop"


@dataclass(frozen=True)
class TensorSizes:
    """A condition that is a tensor: `dim` values a position."""

    dim: int


@dataclass(frozen=True)
class Conditioner:
    """One of both."""

    lut: TableSizes | None = None
    tensor: TensorSizes | None = None


@dataclass(frozen=True)
class Fuser:
    """Where conditions go: to the sum of a step's inputs, or to be attended to."""

    sum: tuple[str, ...]
    cross: tuple[str, ...]
    cross_attention_pos_emb: bool = False
    cross_attention_pos_emb_scale: float = 1.0
    prepend: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timing:
    """audio_delay: seconds that sound is behind the text. second_stream_ahead: words that the
    second text stream is ahead of the first.
    """

    audio_delay: float
    second_stream_ahead: int = 0
    multistream: bool = False


@dataclass(frozen=True)
class TrainingRun:
    """It is part of the names of the voices that fit."""

    sig: str
    epoch: int


@dataclass(frozen=True)
class KyutaiConfig:
    """card, text_card: ids of a codebook and of the text; one more is what a stream begins with."""

    dim: int
    num_heads: int
    num_layers: int
    hidden_scale: float
    n_q: int
    dep_q: int
    card: int
    text_card: int
    delays: tuple[int, ...]
    context: int
    depformer_dim: int
    depformer_num_heads: int
    depformer_num_layers: int
    conditioners: Mapping[str, Conditioner]
    fuser: Fuser
    tts_config: Timing
    model_id: TrainingRun
    depformer_low_rank_embeddings: int
    max_period: float = 10_000.0
    text_card_out: int | None = None
    depformer_dim_feedforward: int | None = None
    depformer_weights_per_step_schedule: tuple[int, ...] | None = None
    tokenizer_name: str = "tokenizer_spm_32k_3.model"
    norm: str = "rms_norm_f32"
    gating: str = "silu"
    positional_embedding: str = "rope"
    depformer_pos_emb: str = "none"
    depformer_multi_linear: bool = True
    depformer_weights_per_step: bool = True
    demux_second_stream: bool = False
    cross_attention: bool = False
    existing_text_padding_id: int = PAD
    kv_repeat: int = 1
    layer_scale: float | None = None
    depformer_norm: str | None = None
    bias_proj: bool = False
    norm_emb: bool = False

    @property
    def hidden(self) -> int:
        return _gated(int(self.hidden_scale * self.dim), self.dim)

    @property
    def depth_hidden(self) -> int:
        wide = self.depformer_dim_feedforward or int(self.hidden_scale * self.depformer_dim)
        return _gated(wide, self.depformer_dim)

    @property
    def schedule(self) -> tuple[int, ...]:
        """Which weights of the depth transformer each codebook has."""
        return self.depformer_weights_per_step_schedule or tuple(range(self.dep_q))

    @property
    def delay_pattern(self) -> DelayPattern:
        """Of the codebooks."""
        return DelayPattern(self.delays[1:])

    @property
    def lead(self) -> int:
        """Steps from a text id to the first codes of the frame that sounds with it."""
        return int(self.tts_config.audio_delay * FRAME_RATE_HZ)

    @property
    def silent_steps(self) -> int:
        """Steps before the first one that completes a frame."""
        return self.lead + self.delay_pattern.most

    @property
    def tables(self) -> dict[str, TableSizes]:
        """The conditions that are summed."""
        found = ((name, self.conditioners[name].lut) for name in self.fuser.sum)
        return {name: lut for name, lut in found if lut is not None}

    @property
    def guidances(self) -> tuple[float, ...]:
        """Coefficients of guidance that were distilled into the model."""
        return tuple(float(value) for value in self.tables[GUIDANCE].possible_values)

    @property
    def voice_values(self) -> int:
        """Of each position of a voice."""
        tensor = self.conditioners[SPEAKER].tensor
        assert tensor is not None
        return tensor.dim


def _gated(wide: int, dim: int) -> int:
    """The width of a gated network that has the parameters of a plain one."""
    return 21 * dim // 8 if wide == 4 * dim else 2 * wide // 3


def load_config(folder: Path) -> KyutaiConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    return checked_config(folder, KyutaiConfig, _problems)


def _problems(c: KyutaiConfig) -> list[str]:
    # Delays and schedules are counted from 0.
    counted = ("delays", "depformer_weights_per_step_schedule")
    if found := [wrong for wrong in size_problems(c) if not wrong.startswith(counted)]:
        return found
    found += head_problems(c.num_heads, c.num_heads, c.dim // c.num_heads)
    found += head_problems(
        c.depformer_num_heads, c.depformer_num_heads, c.depformer_dim // c.depformer_num_heads
    )
    plain = c.norm == "rms_norm_f32" and c.gating == "silu" and c.positional_embedding == "rope"
    shared = c.depformer_multi_linear and c.depformer_weights_per_step
    extra = c.layer_scale or c.depformer_norm or c.bias_proj or c.norm_emb or c.kv_repeat != 1
    if not plain or not shared or c.depformer_pos_emb != "none" or extra:
        found.append("this kind of network is not served")
    if not c.demux_second_stream or c.tts_config.second_stream_ahead < 1:
        found.append("models without a second text stream are not served")
    if not c.cross_attention or c.fuser.cross != (SPEAKER,):
        found.append("models that take a voice as the beginning of the sound are not served")
    return found + _stream_problems(c) + _condition_problems(c)


def _stream_problems(c: KyutaiConfig) -> list[str]:
    if c.tts_config.multistream or c.n_q != c.dep_q or c.existing_text_padding_id != PAD:
        return ["models of several streams are not served"]
    if len(c.delays) != 1 + c.n_q or any(c.delays[:2]) or min(c.delays) < 0:
        return [f"delays {list(c.delays)} are none of a text and {c.n_q} codebooks"]
    if not c.delay_pattern.most or c.silent_steps >= MOST_SILENT_STEPS:
        return [f"sound that is {c.tts_config.audio_delay} s behind the text is not served"]
    if len(c.schedule) != c.dep_q or set(c.schedule) != set(range(max(c.schedule) + 1)):
        return ["depformer_weights_per_step_schedule names no weights for each codebook"]
    return []


def _condition_problems(c: KyutaiConfig) -> list[str]:
    if set(c.conditioners) != {*c.fuser.sum, *c.fuser.cross} or c.fuser.prepend:
        return ["conditioners that no fuser uses are not served"]
    if set(c.tables) != {CONTROL, GUIDANCE} or c.conditioners[SPEAKER].tensor is None:
        return [f"conditions but {CONTROL}, {GUIDANCE} and {SPEAKER} are not served"]
    if "ok" not in c.tables[CONTROL].possible_values:
        return [f"{CONTROL} has no value 'ok'"]
    return []
