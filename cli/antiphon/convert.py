"""`antiphon convert`: a pickled checkpoint, once, as safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.failures import fail
from ttscommon.engine.checkpoint import CheckpointError, find_checkpoint
from ttscommon.engine.conversion import ConversionLimits, convert

_GIB = 1 << 30


def command(
    checkpoint: Annotated[
        str, typer.Argument(help="A folder, ORG/NAME on the hub, or ORG/NAME@REVISION.")
    ],
    file: Annotated[str, typer.Option(help="Which pickle, where there are several.")] = "",
    output: Annotated[
        Path | None, typer.Option(help="Write here, with the config, and not beside the pickle.")
    ] = None,
    memory_gb: Annotated[
        float, typer.Option(min=1, help="Memory, beyond three times a file's size.")
    ] = 4.0,
    timeout_s: Annotated[float, typer.Option(min=1, help="Longest time for a file.")] = 600.0,
) -> None:
    """Write a checkpoint's pickles (.pt, .pth, .bin, .ckpt) as safetensors.

    Pickles are opened in a process with limits, by torch's reader for weights, and nothing in them
    is executed. Services read safetensors alone.
    """
    limits = ConversionLimits(int(memory_gb * _GIB), timeout_s)
    try:
        folder = find_checkpoint(checkpoint, pickles=True)
        made = convert(folder, file=file, into=output, limits=limits)
    except (CheckpointError, OSError) as error:
        fail("convert", error, status=2)
    for path in made:
        typer.echo(path)
