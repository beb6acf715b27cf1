"""The end of a command that failed: one line that a person can act on, and an exit status."""

from __future__ import annotations

from typing import Final, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

NEEDS_BENCH: Final = "needs `pip install 'antiphon[bench]'`"


def fail(command: str, error: Exception, said: str = "", *, status: int = 1) -> NoReturn:
    """`said`: in place of the error's own words."""
    Console(stderr=True).print(
        f"[bold red]antiphon {command}:[/] {escape(said or str(error))}",
        highlight=False,
        soft_wrap=True,
    )
    raise typer.Exit(status) from error
