"""A Qwen3-TTS checkpoint's config.json and generation_config.json. No torch.

Everything is read from the files: the official classes' defaults are not the published models'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from ttscommon.engine.checkpoint import CheckpointError, checked_config, read_json
from ttscommon.engine.codec_sizes import scaling_problems, size_problems
from ttscommon.wire.replicas import MANY, Gender, Voice
from ttsfamilies.base.lm.llama import StackSizes

CODEBOOK0_SIZE = 2048
# The highest rows of the codec's vocabulary are control ids and speakers, never spoken.
CONTROL_IDS = 1024
MIN_NEW_TOKENS = 2


@dataclass(frozen=True, kw_only=True)
class StackConfig(StackSizes):
    """What both decoders have. num_code_groups: codebooks."""

    vocab_size: int
    head_dim: int
    rope_theta: float
    num_code_groups: int
    use_sliding_window: bool = False
    rope_scaling: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(StackConfig):
    """The talker's decoder, its vocabularies and its control ids.

    code_predictor_config: a small decoder over the codebooks of one frame. spk_is_dialect: per
    speaker False, or the language that it forces under "chinese" and "auto".
    """

    code_predictor_config: StackConfig
    hidden_act: str
    max_position_embeddings: int
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


_LARGEST_TEMPERATURE: Final = 100.0
_LEAST_NEW_TOKENS: Final = 2


def config_problems(config: TalkerConfig) -> Iterator[str]:
    """Of config.json."""
    talker = config.talker_config
    for name, part in (
        ("talker_config", talker),
        ("code_predictor_config", talker.code_predictor_config),
    ):
        for wrong in (*part.problems(), *scaling_problems(dict(part.rope_scaling or {}))):
            yield f"{name}: {wrong}"
    for number in (config.tts_pad_token_id, config.tts_bos_token_id, config.tts_eos_token_id):
        if not 0 <= number < talker.text_vocab_size:
            yield f"text id {number} is not one of {talker.text_vocab_size}"
    yield from _codec_ids(talker)
    yield from _names(talker)
    if config.tts_model_type == "base":
        yield from _speaker(config.speaker_encoder_config, talker.hidden_size)


def generation_problems(defaults: GenerationConfig) -> Iterator[str]:
    """Of generation_config.json."""
    for name in ("temperature", "subtalker_temperature"):
        if not 0 <= getattr(defaults, name) <= _LARGEST_TEMPERATURE:
            yield f"{name} is {getattr(defaults, name)}, not from 0 to {_LARGEST_TEMPERATURE:.0f}"
    for name in ("top_p", "subtalker_top_p"):
        if not 0 < getattr(defaults, name) <= 1:
            yield f"{name} is {getattr(defaults, name)}, not above 0 and up to 1"
    for name in ("top_k", "subtalker_top_k"):
        if getattr(defaults, name) < 0:
            yield f"{name} is {getattr(defaults, name)}, not 0 or more"
    penalty = defaults.repetition_penalty
    if not (math.isfinite(penalty) and penalty > 0):
        yield f"repetition_penalty is {penalty}, not a positive number"
    if defaults.max_new_tokens < _LEAST_NEW_TOKENS:
        yield f"max_new_tokens is {defaults.max_new_tokens}, not {_LEAST_NEW_TOKENS} or more"


def _codec_ids(c: BackboneConfig) -> Iterator[str]:
    own = {name: getattr(c, name) for name in _CODEC_IDS}
    for kind, ids in (
        ("id", own),
        ("language", c.codec_language_id),
        ("speaker", c.spk_id),
    ):
        for name, number in ids.items():
            if not 0 <= number < c.vocab_size:
                yield f"{kind} {name!r} is {number}, not one of {c.vocab_size} codec ids"


_CODEC_IDS: Final = (
    *("codec_pad_id", "codec_bos_id", "codec_eos_token_id", "codec_think_id"),
    *("codec_nothink_id", "codec_think_bos_id", "codec_think_eos_id"),
)


def _names(c: BackboneConfig) -> Iterator[str]:
    for kind, named in (
        ("speaker", c.spk_id),
        ("dialect's speaker", c.spk_is_dialect),
        ("language", c.codec_language_id),
    ):
        yield from (f"two {kind}s are called {name!r}" for name in _twice(named))
    languages = {name.lower() for name in c.codec_language_id}
    for speaker, dialect in c.spk_is_dialect.items():
        if dialect and str(dialect).lower() not in languages:
            yield f"speaker {speaker!r} speaks {dialect!r}, which has no id in codec_language_id"


def _twice(named: Mapping[str, object]) -> list[str]:
    """Names that others differ from in case alone."""
    lowered = [name.lower() for name in named]
    return sorted({name for name in lowered if lowered.count(name) > 1})


def _speaker(c: SpeakerConfig, dim: int) -> Iterator[str]:
    part = "speaker_encoder_config"
    yield from (f"{part}: {wrong}" for wrong in size_problems(c))
    if c.enc_dim != dim:
        yield f"{part}: enc_dim {c.enc_dim} is not the talker's hidden_size {dim}"
    layers = {len(c.enc_channels), len(c.enc_kernel_sizes), len(c.enc_dilations)}
    if len(layers) > 1 or min(layers) < 3:
        yield f"{part}: channels, kernel sizes and dilations are not of one length from 3 on"
    elif c.enc_res2net_scale < 2 or any(n % c.enc_res2net_scale for n in c.enc_channels[1:-1]):
        yield f"{part}: enc_channels are no multiples of enc_res2net_scale {c.enc_res2net_scale}"


NAMES: Final[Mapping[str, str]] = {
    "zh": "chinese",
    "en": "english",
    "de": "german",
    "it": "italian",
    "pt": "portuguese",
    "es": "spanish",
    "ja": "japanese",
    "ko": "korean",
    "fr": "french",
    "ru": "russian",
}
"""Names in `codec_language_id`, by ISO 639 code."""

# The published speakers: native language and gender, by the checkpoints' model card.
_SPEAKERS: Final[Mapping[str, tuple[str, Gender]]] = {
    "vivian": ("zh", "female"),
    "serena": ("zh", "female"),
    "uncle_fu": ("zh", "male"),
    "dylan": ("zh", "male"),
    "eric": ("zh", "male"),
    "ryan": ("en", "male"),
    "aiden": ("en", "male"),
    "ono_anna": ("ja", "female"),
    "sohee": ("ko", "female"),
}


def voice_of(speaker: str, names: Iterable[str]) -> Voice:
    """A checkpoint's speaker, who speaks all of its languages. names: `TalkerConfig.languages`."""
    native, gender = _SPEAKERS.get(speaker, (None, None))
    known = set(names)
    tags = [tag for tag, name in NAMES.items() if name in known]
    tags.sort(key=lambda tag: tag != native)
    return Voice(speaker, speaker.replace("_", " ").title(), MANY, gender, tuple(tags))


V = TypeVar("V")


def load_config(folder: Path) -> TalkerConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError.

    Names of speakers and languages are asked for in any case, so they are kept in lower case.
    """
    config = checked_config(
        folder, TalkerConfig, lambda config: (*_problems(config), *config_problems(config))
    )
    return _lowered(config)


def _lowered(config: TalkerConfig) -> TalkerConfig:
    c = config.talker_config
    dialects = {
        name: dialect.lower() if isinstance(dialect, str) else dialect
        for name, dialect in c.spk_is_dialect.items()
    }
    lowered = replace(
        c,
        codec_language_id=_lower_keys(c.codec_language_id),
        spk_id=_lower_keys(c.spk_id),
        spk_is_dialect=_lower_keys(dialects),
    )
    return replace(config, talker_config=lowered)


def _lower_keys(named: Mapping[str, V]) -> dict[str, V]:
    return {name.lower(): value for name, value in named.items()}


def load_generation_config(folder: Path) -> GenerationConfig:
    """Read and check generation_config.json, if there is one; raises CheckpointError."""
    path = folder / "generation_config.json"
    found = read_json(path, GenerationConfig) if path.exists() else GenerationConfig()
    for wrong in generation_problems(found):
        raise CheckpointError(f"{path}: {wrong}")
    return found


def _problems(config: TalkerConfig) -> list[str]:
    backbone, predictor = config.talker_config, config.talker_config.code_predictor_config
    found = []
    if config.model_type != "qwen3_tts":
        found.append(f"model_type is {config.model_type!r}, not 'qwen3_tts'")
    if config.tokenizer_type != "qwen3_tts_tokenizer_12hz":
        found.append(f"tokenizer_type {config.tokenizer_type!r} is not served, only the 12 Hz one")
    if backbone.hidden_act != "silu":
        found.append(f"hidden_act {backbone.hidden_act!r} is not served")
    if backbone.use_sliding_window or predictor.use_sliding_window:
        found.append("sliding windows are not served")
    if backbone.vocab_size != CODEBOOK0_SIZE + CONTROL_IDS:
        found.append(f"vocab_size {backbone.vocab_size} of the codec is not served")
    if predictor.vocab_size > CODEBOOK0_SIZE:
        found.append(f"vocab_size {predictor.vocab_size} of the code predictor is not served")
    if predictor.num_code_groups != backbone.num_code_groups:
        found.append("talker and code predictor disagree on num_code_groups")
    return found
