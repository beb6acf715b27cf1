"""Findings of `antiphon doctor`, for people at 80 columns and for programs."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rich.text import Text

_NAME: Final = 10
_MARGIN: Final = " " * (_NAME + 3)
_WIDTH: Final = 80


class Grade(Enum):
    """Whether it works; `NOTE`: not needed by all."""

    GOOD = ("✓", "green")
    NOTE = ("·", "yellow")
    BAD = ("✗", "bold red")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. text: lines may be wrapped where a person reads them."""

    name: str
    state: Grade
    text: str

    def plain(self) -> dict[str, str]:
        """For JSON."""
        return {"name": self.name, "state": self.state.name.lower(), "text": self.text}

    def __rich__(self) -> Text:
        mark, style = self.state.value
        return Text.assemble(
            (f"{mark} ", style), (f"{self.name:<{_NAME}}", "bold"), Text(f" {self._wrapped()}")
        )

    def _wrapped(self) -> str:
        """Paths, addresses and commands are not cut."""
        lines = [
            part
            for line in self.text.split("\n")
            for part in textwrap.wrap(
                line,
                _WIDTH - len(_MARGIN),
                subsequent_indent="" if not line.startswith(" ") else "  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        ]
        return f"\n{_MARGIN}".join(lines)
