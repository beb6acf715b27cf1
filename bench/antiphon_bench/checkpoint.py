"""The command that writes a checkpoint of any family."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ttsfamilies.base.synthetic import families

_FAMILIES: Final = ", ".join(families.names())


def checkpoint(
    family: Annotated[str, typer.Argument(help=f"One of {_FAMILIES}.")],
    folder: Annotated[Path, typer.Argument(file_okay=False, help="Where it is written.")],
    size: Annotated[str, typer.Option(help="tiny, or a published one: 0.6b or 1.7b.")] = "",
    kind: Annotated[str, typer.Option(help="custom_voice, voice_design or base.")] = "",
    seed: Annotated[int, typer.Option(help="Of the weights.")] = 0,
) -> None:
    """Write a checkpoint with published names and shapes and drawn weights: it babbles."""
    try:
        typer.echo(families.family(family).written(folder, size, kind, seed))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
