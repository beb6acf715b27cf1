"""Output of commands: lists, the doctor's findings, and the one line of a command that failed."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

Row: TypeAlias = Sequence[str]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="For programs: as JSON.")]

_GAP: Final = 3
_INDENT: Final = 2
_NARROWEST: Final = 20
_FIRST: Final = "bold cyan"


def show(heads: Row, rows: Sequence[Row], console: Console | None = None) -> None:
    """Print rows of cells; the first cell names its row. In a pipe there are 80 columns, or as many
    as COLUMNS says.
    """
    console = console or Console()
    if not rows:
        console.print("none", style="dim")
        return
    widths = (max(map(len, column)) for column in zip(heads, *rows, strict=True))
    if sum(widths) + _GAP * (len(heads) - 1) <= console.width:
        console.print(_table(heads, rows), highlight=False)
        return
    for number, row in enumerate(rows):
        if number:
            console.print()
        _paragraph(heads, row, console)


def dump(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows as JSON."""
    typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))


def _table(heads: Row, rows: Sequence[Row]) -> Table:
    found = Table(box=None, header_style="dim", pad_edge=False, padding=(0, _GAP, 0, 0))
    for head in heads:
        found.add_column(head, style=_FIRST if head == heads[0] else "", no_wrap=True)
    for row in rows:
        found.add_row(*map(Text, row))
    return found


def _paragraph(heads: Row, row: Row, console: Console) -> None:
    """The name, and below it a line for each cell that says something."""
    console.print(Text(row[0], style=_FIRST))
    edge = _INDENT + max(map(len, heads[1:])) + _GAP
    for head, cell in zip(heads[1:], row[1:], strict=True):
        first, *others = wrap(cell, max(console.width - edge, _NARROWEST)) or [""]
        if not first:
            continue
        name = Text(" " * _INDENT + head.ljust(edge - _INDENT), style="dim")
        console.print(name.append(first, style="not dim"), soft_wrap=True, highlight=False)
        for line in others:
            console.print(Text(" " * edge + line), soft_wrap=True, highlight=False)


_CHECKOUT: Final = Path(__file__).resolve().parents[2]


def needs_bench(checkout: Path = _CHECKOUT) -> str:
    """How to install the load generator where it is missing: a checkout has it at hand."""
    if (checkout / "bench" / "pyproject.toml").exists():
        return f"needs `make -C {checkout} .venv/.developing`"
    return "needs `pip install 'antiphon[bench]'`"


def flowing(documented: object) -> str:
    """A docstring as help that is wrapped once: a line for each paragraph."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def fail(command: str, error: Exception, said: str = "", *, status: int = 1) -> NoReturn:
    """`said`: in place of the error's own words."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        said = f"{error.strerror}: {error.filename}"
    Console(stderr=True).print(
        f"[bold red]antiphon {command}:[/] {escape(said or str(error))}",
        highlight=False,
        soft_wrap=True,
    )
    raise typer.Exit(status) from error


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
