"""Reads and checks a Qwen3-TTS checkpoint's config.json and generation_config.json. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from ttscommon.engine.checkpoint import CheckpointError, checked_config, read_json
from ttscommon.wire.replicas import MANY, Gender, Voice
from ttsfamilies.qwen3_tts.config import (
    CODEBOOK0_SIZE,
    CONTROL_IDS,
    GenerationConfig,
    TalkerConfig,
    config_problems,
    generation_problems,
)

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
