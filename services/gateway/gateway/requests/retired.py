"""Voices and a model that are gone: for one release their names mean what took their place.

Remove this module, and what uses it, in 0.3.
"""

from __future__ import annotations

from typing import Final

MODELS: Final = {"cantor": "vesper"}
VOICES: Final = {"slt": "vesper", "rms": "vesper-low", "awb": "vesper-calm"}


def warning(asked: str, spoken: str) -> str:
    """A Warning header's value (RFC 7234) for a voice that was asked for; "" if it is not gone."""
    if asked == spoken or asked not in VOICES:
        return ""
    return f'299 - "the voice {asked} is gone: {spoken} speaks, until the next release"'
