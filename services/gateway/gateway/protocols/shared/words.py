"""A timed word as our own protocols tell it."""

from __future__ import annotations

from typing import Any

from ttscommon.wire.messages import WordTime


def timed(word: WordTime) -> dict[str, Any]:
    """Its times; what it is read as, and its place in the request's text, where they are known."""
    told: dict[str, Any] = {
        "word": word.word,
        "start_s": round(word.start_s, 4),
        "end_s": round(word.end_s, 4),
    }
    if word.spoken:
        told["spoken"] = word.spoken
    if word.first >= 0:
        told |= {"start_char": word.first, "end_char": word.last}
    return told
