"""`antiphon models`: what is served now, and what could be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from antiphon.client import ServedModel
from ttsfamilies.known import FAMILIES, FamilyFacts

KNOWN: Final = (
    "family",
    "codec",
    "Hz",
    "frames/s",
    "accepts",
    "licence of code",
    "licence of weights",
)
SERVED: Final = ("model", "family", "Hz", "accepts")


def known() -> list[tuple[str, ...]]:
    """A row of KNOWN for each family that is built in."""
    return [_facts(family) for family in FAMILIES]


def known_plain() -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "family": family.name,
            "title": family.title,
            "codec": family.codec.title,
            "sample_rate": family.codec.sample_rate,
            "frame_rate_hz": family.codec.frame_rate_hz,
            "accepts": family.accepts,
            "licences": {
                "code": _both(family.code, family.codec.code),
                "weights": _both(family.weights, family.codec.weights),
            },
        }
        for family in FAMILIES
    ]


def _facts(family: FamilyFacts) -> tuple[str, ...]:
    codec = family.codec
    return (
        family.title,
        codec.title,
        str(codec.sample_rate),
        f"{codec.frame_rate_hz:.4g}",
        ", ".join(family.accepts),
        _both(family.code, codec.code),
        _both(family.weights, codec.weights),
    )


def _both(talker: str, codec: str) -> str:
    return talker if talker == codec else f"{talker}; codec {codec}"


def served(models: Iterable[ServedModel]) -> list[tuple[str, ...]]:
    """A row of SERVED for each model."""
    return [(m.id, m.family, str(m.sample_rate), ", ".join(m.accepts)) for m in models]


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """As documents have it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
