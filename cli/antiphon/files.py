"""Commands about files: `antiphon convert` a checkpoint, `antiphon detect` a sound's origin."""

from __future__ import annotations

import json
import mmap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import soundfile
import typer
from rich.console import Console

from antiphon import printing
from antiphon.printing import fail
from gateway.audio.provenance import claims
from gateway.audio.watermark import CutScore, NoWatermark, Perth, scores_of_cuts
from ttscommon.engine.checkpoint import CheckpointError, find_checkpoint
from ttscommon.engine.conversion import ConversionLimits, convert

_GIB = 1 << 30


def convert_checkpoint(
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


_NOTHING_FOUND: Final = 1
_UNREADABLE: Final = 2


@dataclass(frozen=True)
class Findings:
    """Fields of the file's tags, and what the detector says of each cut; None: it did not look."""

    tags: list[dict[str, str]]
    cuts: list[CutScore] | None

    @property
    def synthetic(self) -> bool:
        return bool(self.tags) or any(cut.marked for cut in self.cuts or ())

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        cuts = None if self.cuts is None else [asdict(cut) for cut in self.cuts]
        return {"synthetic": self.synthetic, "tags": self.tags, "watermark": cuts}


def detect(
    file: Annotated[Path, typer.Argument(help="A recording, whole or cut.")],
    watermark: Annotated[
        Path | None,
        typer.Option(
            envvar="ANTIPHON_WATERMARK", help="Perth's weights: look for its mark in the sound too."
        ),
    ] = None,
    as_json: printing.Json = False,
) -> None:
    """Tell whether a recording says that it is synthetic. Ends with 0 if it does, 1 if not.

    Tags can be removed, and anyone can write them: none is no sign that a person spoke.
    """
    try:
        found = Findings(_claims(file), None if watermark is None else _cuts(file, watermark))
    except (OSError, NoWatermark, soundfile.LibsndfileError) as error:
        fail("detect", error, status=_UNREADABLE)
    if as_json:
        typer.echo(json.dumps(found.plain()))
    else:
        _show(Console(), found)
    raise typer.Exit(0 if found.synthetic else _NOTHING_FOUND)


def _claims(file: Path) -> list[dict[str, str]]:
    """Raises OSError."""
    if not file.stat().st_size:
        return []
    with file.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return list(claims(data))


def _cuts(file: Path, weights: Path) -> list[CutScore]:
    """Of the mean of all channels; raises NoWatermark, LibsndfileError for what it cannot read."""
    perth = Perth.load(weights)
    sound, rate = soundfile.read(file, dtype="float32", always_2d=True)
    return list(scores_of_cuts(perth, np.ascontiguousarray(sound.mean(1)), rate))


def _show(console: Console, found: Findings) -> None:
    for fields in found.tags:
        for name, value in fields.items():
            console.print(f"[dim]{name}[/] {value}", highlight=False, soft_wrap=True)
    if not found.tags:
        console.print("no tag says that it is synthetic")
    if found.cuts is None:
        console.print("[dim]the sound itself was not looked at: --watermark gives the weights[/]")
        return
    marked = sum(cut.marked for cut in found.cuts)
    console.print(f"the sound is marked in {marked} of {len(found.cuts)} parts", highlight=False)
    for cut in found.cuts:
        span = f"{cut.start_s:7.1f} to {cut.end_s:5.1f} s"
        console.print(f"[dim]{span}[/] {cut.score:.2f}", highlight=False)
