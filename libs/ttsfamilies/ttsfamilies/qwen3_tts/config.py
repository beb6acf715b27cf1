"""A Qwen3-TTS checkpoint's config.json and generation_config.json. No torch.

Everything is read from the files: the official classes' defaults are not the published models'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CODEBOOK0_SIZE = 2048
# The highest rows of the codec's vocabulary are control ids and speakers, never spoken.
CONTROL_IDS = 1024
MIN_NEW_TOKENS = 2


@dataclass(frozen=True)
class PredictorConfig:
    """The code predictor: a small decoder over the codebooks of one frame."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    num_code_groups: int
    attention_bias: bool = False
    use_sliding_window: bool = False
    rope_scaling: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class BackboneConfig:
    """The talker's decoder, its vocabularies and its control ids.

    spk_is_dialect: per speaker False, or the language that it forces under "chinese" and "auto".
    """

    code_predictor_config: PredictorConfig
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    hidden_act: str
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    num_code_groups: int
    text_vocab_size: int
    text_hidden_size: int
    codec_pad_id: int
    codec_bos_id: int
    codec_eos_token_id: int
    codec_think_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    codec_language_id: Mapping[str, int]
    spk_id: Mapping[str, int] = field(default_factory=dict)
    spk_is_dialect: Mapping[str, str | bool] = field(default_factory=dict)
    attention_bias: bool = False
    use_sliding_window: bool = False
    rope_scaling: Mapping[str, Any] | None = None

    @property
    def codebooks(self) -> int:
        return self.num_code_groups


@dataclass(frozen=True)
class SpeakerConfig:
    """The speaker encoder of Base models (ECAPA-TDNN). Published files name two of these."""

    enc_dim: int = 1024
    sample_rate: int = 24_000
    mel_dim: int = 128
    enc_channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    enc_kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 128
    enc_res2net_scale: int = 8
    enc_se_channels: int = 128


@dataclass(frozen=True)
class TalkerConfig:
    """config.json. `tts_model_type` says what the model can be asked for."""

    talker_config: BackboneConfig
    tts_model_type: Literal["custom_voice", "voice_design", "base"]
    tts_model_size: str
    tokenizer_type: str
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    model_type: str = "qwen3_tts"
    speaker_encoder_config: SpeakerConfig = field(default_factory=SpeakerConfig)

    @property
    def takes_instructions(self) -> bool:
        """As the official package does: never for clones, nor for the small preset voices."""
        if self.tts_model_type == "custom_voice":
            return self.tts_model_size not in "0b6"
        return self.tts_model_type == "voice_design"

    @property
    def languages(self) -> tuple[str, ...]:
        """What may be asked for; dialects are chosen by their speakers."""
        named = self.talker_config.codec_language_id
        return ("auto", *sorted(name for name in named if "dialect" not in name))


@dataclass(frozen=True)
class GenerationConfig:
    """Sampling where a request says nothing; temperatures of a greedy choice count as 0."""

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    subtalker_dosample: bool = True
    subtalker_temperature: float = 0.9
    subtalker_top_k: int = 50
    subtalker_top_p: float = 1.0
    max_new_tokens: int = 2048
