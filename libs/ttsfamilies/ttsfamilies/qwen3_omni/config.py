"""The speaking half of a Qwen3-Omni checkpoint's config.json. No torch.

Everything is read from the file: the published classes' defaults are not the published model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from ttscommon.engine.checkpoint import checked_config
from ttscommon.engine.codec_sizes import size_problems
from ttsfamilies.base.lm.llama import StackSizes
from ttsfamilies.qwen3_tts.config import (
    CODEBOOK0_SIZE,
    CONTROL_IDS,
    BackboneConfig,
    GenerationConfig,
    StackConfig,
    TalkerConfig,
    config_problems,
)

MODEL_TYPE: Final = "qwen3_omni_moe"
# Rows that every stream has: the text's ids are places among its rows, and these come first.
PAD, BEGIN, END = range(3)
SPECIAL_ROWS: Final = 3
# What a position's row is.
NO_ROW, EMBEDDING, STATE = range(3)

# What the reference's `generate` draws with unless it is told otherwise.
DEFAULTS: Final = GenerationConfig(
    temperature=0.9,
    top_k=50,
    top_p=1.0,
    repetition_penalty=1.05,
    subtalker_temperature=1.0,
    subtalker_top_k=50,
    subtalker_top_p=0.8,
    max_new_tokens=4096,
)


@dataclass(frozen=True, kw_only=True)
class PartSizes(StackSizes):
    """What backbone and code predictor have alike."""

    vocab_size: int
    head_dim: int
    hidden_act: str = "silu"
    sliding_window: int | None = None
    rope_theta: float | None = None
    rope_scaling: Mapping[str, Any] | None = None

    @property
    def sections(self) -> tuple[int, ...]:
        """Pairs of channels that turn by time, height and width."""
        return tuple((self.rope_scaling or {}).get("mrope_section", ()))

    def shared(self) -> dict[str, Any]:
        """Under the names of Qwen3-TTS's sizes."""
        names = (*(field.name for field in fields(StackSizes)), "vocab_size", "rope_scaling")
        return {name: getattr(self, name) for name in names} | {"rope_theta": self.theta}


@dataclass(frozen=True, kw_only=True)
class MixtureSizes(PartSizes):
    """The backbone, whose feed-forward networks are experts."""

    moe_intermediate_size: int
    shared_expert_intermediate_size: int
    num_experts: int
    num_experts_per_tok: int
    norm_topk_prob: bool
    max_position_embeddings: int
    decoder_sparse_step: int = 1
    mlp_only_layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class SpeakingSizes:
    """talker_config."""

    text_config: MixtureSizes
    code_predictor_config: PartSizes
    num_code_groups: int
    thinker_hidden_size: int
    accept_hidden_layer: int
    codec_pad_id: int
    codec_bos_id: int
    codec_eos_token_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    speaker_id: Mapping[str, int]


@dataclass(frozen=True)
class OmniConfig:
    """config.json. tts_..._token_id: ids of the thinker, whose rows stand for no text."""

    talker_config: SpeakingSizes
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    model_type: str
    enable_audio_output: bool = True

    @property
    def specials(self) -> tuple[int, int, int]:
        """In the order of PAD, BEGIN and END."""
        return self.tts_pad_token_id, self.tts_bos_token_id, self.tts_eos_token_id

    def as_talker(self) -> TalkerConfig:
        """In the terms of Qwen3-TTS, whose text is ids: here places among a stream's rows."""
        c = self.talker_config
        text, predictor = c.text_config, c.code_predictor_config
        ids = {name: getattr(c, name) for name in _CODEC_IDS}
        backbone = BackboneConfig(
            **text.shared(),
            **ids,
            code_predictor_config=StackConfig(
                **predictor.shared(), num_code_groups=c.num_code_groups
            ),
            hidden_act=text.hidden_act,
            max_position_embeddings=text.max_position_embeddings,
            num_code_groups=c.num_code_groups,
            text_vocab_size=SPECIAL_ROWS,
            text_hidden_size=c.thinker_hidden_size,
            codec_think_id=c.codec_nothink_id,
            codec_language_id={},
            # The first is the default; transformers 5 saves names sorted, not as published.
            spk_id={
                name.lower(): number
                for name, number in sorted(c.speaker_id.items(), key=lambda each: each[1])
            },
        )
        return TalkerConfig(backbone, "custom_voice", "30b", "", PAD, BEGIN, END, self.model_type)


_CODEC_IDS: Final = (
    *("codec_pad_id", "codec_bos_id", "codec_eos_token_id"),
    *("codec_nothink_id", "codec_think_bos_id", "codec_think_eos_id"),
)


def load_config(folder: Path) -> OmniConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    return checked_config(
        folder,
        OmniConfig,
        lambda config: (*_problems(config), *config_problems(config.as_talker())),
    )


def _problems(config: OmniConfig) -> Iterator[str]:
    c = config.talker_config
    text = c.text_config
    if config.model_type != MODEL_TYPE:
        yield f"model_type is {config.model_type!r}, not {MODEL_TYPE!r}"
    if not config.enable_audio_output:
        yield "enable_audio_output is false: this checkpoint has no talker"
    if text.hidden_act != "silu":
        yield f"hidden_act {text.hidden_act!r} is not served"
    if text.vocab_size != CODEBOOK0_SIZE + CONTROL_IDS:
        yield f"vocab_size {text.vocab_size} of the codec is not served"
    if c.code_predictor_config.vocab_size > CODEBOOK0_SIZE:
        yield "vocab_size of the code predictor is not served"
    if text.decoder_sparse_step != 1 or text.mlp_only_layers:
        yield "layers without experts are not served"
    if text.num_experts_per_tok > text.num_experts:
        yield f"{text.num_experts_per_tok} experts a token, of {text.num_experts}"
    if len(text.sections) != 3 or sum(text.sections) != text.head_dim // 2:
        yield f"mrope_section {list(text.sections)} does not fill head_dim {text.head_dim}"
    if min(text.theta, c.code_predictor_config.theta) <= 0:
        yield "rope_theta is missing"
    yield from size_problems(text)
