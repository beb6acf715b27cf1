"""Measuring programs of their own, as subcommands: each runs as a module, with its own options."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import typer

_CONTEXT: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
# What only a checkout of the repository has.
_CHECKOUT: Final = Path("tests/chaos")


@dataclass(frozen=True)
class Program:
    """module: what `python -m` runs; what: its line in the list of commands."""

    name: str
    module: str
    what: str

    @property
    def missing(self) -> str:
        """What it lacks here, in words, or nothing."""
        if self.module.startswith("tests."):
            return "" if _CHECKOUT.is_dir() else "runs in a checkout of the repository"
        package = self.module.split(".")[0]
        return "" if find_spec(package) else f"needs the package {package}"

    def run(self, context: typer.Context) -> None:
        """Run it with the rest of the command line, and end with its exit status."""
        if self.missing:
            raise typer.BadParameter(f"{self.name} {self.missing}")
        command = [sys.executable, "-m", self.module, *context.args]
        raise typer.Exit(subprocess.run(command, check=False).returncode)


PROGRAMS: Final = (
    Program("hops", "antiphon_bench.hops", "First sound of the stack and of its engines."),
    Program("formats", "antiphon_bench.formats", "First bytes per format, alone and in company."),
    Program(
        "books", "antiphon_bench.books", "A job, its text request by request, listeners beside it."
    ),
    Program("encoders", "gateway.audio.measure", "Processor time of a second of audio by format."),
    Program("gpu", "antiphon_bench.gpu", "All that is measured on a GPU; has subcommands."),
    Program("voice", "voicetrain.vesper", "Train, evaluate and show the default voice."),
    Program(
        "parity-kokoro", "tests.parity.kokoro_speed", "Kokoro's first sound beside its package's."
    ),
    Program("parity-pocket-tts", "tests.parity.pocket_speed", "Pocket TTS beside its package."),
    Program("kokoro-cuts", "tests.parity.kokoro_cuts", "What cutting a text changes of Kokoro's."),
    Program(
        "peers", "tests.parity.side_by_side", "Piper, Pocket TTS, Kokoro beside their own servers."
    ),
    Program(
        "pooling", "antiphon_bench.pooling", "Tacotron 2 in a pool, one by one, in static batches."
    ),
    Program("overlaps", "antiphon_bench.overlaps", "HiFi-GAN exactly, and in chunks that overlap."),
    Program("runaways", "antiphon_bench.runaways", "Starved ends: what is caught."),
    Program("false-alarms", "voicetrain.vesper.false_alarms", "Endings taken for runaways."),
    Program("parity", "tests.parity.speed", "Frames a second beside a family's reference."),
    Program("dashboards", "tests.deploy.observe", "Draw every panel under load, with deaths."),
    Program("loads", "tests.deploy.loads", "Record what a fleet exports under five loads."),
    Program("chaos", "tests.chaos", "Disturb a stack and measure it; has programs of its own."),
)


def register(app: typer.Typer) -> None:
    """Add a command for each program."""
    for program in PROGRAMS:
        command = app.command(
            program.name, help=program.what, context_settings=_CONTEXT, add_help_option=False
        )
        command(program.run)
