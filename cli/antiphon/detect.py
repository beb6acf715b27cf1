"""`antiphon detect`: the origin of a sound, as its file tells it."""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from gateway.audio.provenance import claims

_NOTHING_FOUND: Final = 1
_UNREADABLE: Final = 2


def detect(
    file: Annotated[Path, typer.Argument(help="A recording, whole or cut.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Tell whether a recording says that it is synthetic. Ends with 0 if it does, 1 if not.

    Tags can be removed, and anyone can write them: none is no sign that a person spoke.
    """
    console = Console()
    try:
        found = _claims(file)
    except OSError as error:
        Console(stderr=True).print(f"[bold red]antiphon detect:[/] {error}", highlight=False)
        raise typer.Exit(_UNREADABLE) from None
    if as_json:
        typer.echo(json.dumps({"tags": found}))
    else:
        _show(console, found)
    raise typer.Exit(0 if found else _NOTHING_FOUND)


def _claims(file: Path) -> list[dict[str, str]]:
    """Raises OSError."""
    if not file.stat().st_size:
        return []
    with file.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return list(claims(data))


def _show(console: Console, found: list[dict[str, str]]) -> None:
    if not found:
        console.print("no tag says that it is synthetic")
    for fields in found:
        for name, value in fields.items():
            console.print(f"[dim]{name}[/] {value}", highlight=False, soft_wrap=True)
