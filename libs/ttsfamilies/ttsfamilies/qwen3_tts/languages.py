"""Languages of its checkpoints: their names in configs, and their tags; speakers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ttscommon.wire.replicas import MANY, Gender, Voice

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
