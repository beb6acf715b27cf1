"""Voices mixed of several: `af_heart*0.6+af_sky*0.4`, `af_bella(2)+af_sky(1)`, `af_bella,af_sky`.

These are the ways in which clients of Kokoro and of its servers write them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, TypeAlias

from ttscommon.wire.errors import UnknownVoice

MOST_PARTS: Final = 8

Blend: TypeAlias = tuple[tuple[str, float], ...]
"""Voices and their shares, which sum to 1."""

_NAME: Final = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_NUMBER: Final = r"(?P<weight>[0-9]{1,6}(?:\.[0-9]{1,6})?)"
_PARTS: Final = tuple(
    re.compile(form)
    for form in (
        _NAME,
        rf"{_NAME}\s*\*\s*{_NUMBER}",
        rf"{_NUMBER}\s*\*\s*{_NAME}",
        rf"{_NAME}\s*\(\s*{_NUMBER}\s*\)",
    )
)


def parse(voice: str, known: Collection[str]) -> Blend:
    """The shares of `known` voices; one that is named twice has the sum of both.

    Raises UnknownVoice for a voice that is not known and for what is no blend.
    """
    parts = re.split(r"[+,]", voice)
    if len(parts) > MOST_PARTS:
        raise UnknownVoice(f"a blend has at most {MOST_PARTS} voices", param="voice")
    weights: dict[str, float] = {}
    for part in parts:
        name, weight = _part(part.strip(), voice)
        if name not in known:
            raise UnknownVoice(f"there is no voice '{name}'; try {', '.join(known)}", param="voice")
        weights[name] = weights.get(name, 0.0) + weight
    if not (total := sum(weights.values())):
        raise UnknownVoice(f"the weights of '{voice}' sum to 0", param="voice")
    return tuple((name, weight / total) for name, weight in weights.items())


def _part(part: str, voice: str) -> tuple[str, float]:
    for form in _PARTS:
        if (found := form.fullmatch(part)) is not None:
            return found["name"], float(found.groupdict().get("weight", 1.0))
    raise UnknownVoice(
        f"'{voice}' is neither a voice nor a blend such as 'af_heart*0.6+af_sky*0.4'", param="voice"
    )
