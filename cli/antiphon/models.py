"""`antiphon models`: what is served now, and what could be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.table import Table

from antiphon.client import ServedModel
from ttsfamilies.known import FAMILIES, FamilyFacts

KNOWN: Final = ("family", "codec", "Hz", "frames/s", "accepts", "licence: code", "weights")
SERVED: Final = ("model", "family", "Hz", "accepts")


def known() -> list[tuple[str, ...]]:
    """A row of KNOWN for each family that is built in."""
    return [_facts(family) for family in FAMILIES]


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


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """For a terminal."""
    found = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 3, 0, 0))
    for head in heads:
        found.add_column(head, style="bold cyan" if head == heads[0] else "")
    for row in rows:
        found.add_row(*row)
    return found


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """As documents have it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
