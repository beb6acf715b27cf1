"""The subcommands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from antiphon_bench.gpu import report as reports
from antiphon_bench.gpu import stack
from antiphon_bench.gpu.bundle import PYTHON
from antiphon_bench.gpu.bundle import bundle as write_bundle
from antiphon_bench.gpu.records import Point, Records

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

Out = Annotated[Path, typer.Option(help="Where points are kept.")]
Where = Annotated[str, typer.Option(help="cuda, cuda:1 or cpu.")]
Size = Annotated[str, typer.Option(help="tiny, 0.6b or 1.7b.")]
Rows = Annotated[int, typer.Option(min=1, help="The largest batch.")]
Minutes = Annotated[float, typer.Option(help="Begin nothing that would end later.")]
Seconds = Annotated[float, typer.Option(help="Of each load.")]
Lengths = Annotated[str, typer.Option(help="Frames that requests ask for, in equal parts.")]
Runs = Annotated[int, typer.Option(min=1, help="Of each point.")]

_OUT: Final = Path("build/gpu")
_LENGTHS: Final = "25,50,75,100"  # 2 to 8 s


def _engines(
    name: str, out: Path, device: str, size: str, rows: int, minutes: float, runs: int
) -> None:
    from antiphon_bench.gpu.engines import Engines
    from antiphon_bench.gpu.subject import Subject, device_named

    engines = Engines(Subject(device_named(device), size), rows, runs)  # type: ignore[arg-type]
    points: dict[str, Callable[[], Iterable[Point]]] = {
        "bandwidth": lambda: [{}],
        "check": lambda: [{"what": what} for what in engines.CHECKS],
        "prefill": engines.prompts,
        "codec": engines.codecs.pieces,
    }
    keys = points.get(name, engines.batches)()
    _said(name, Records(out, name).fill(keys, getattr(engines, name), minutes))


def _said(name: str, complete: bool) -> None:
    typer.echo(f"{name}: {'complete' if complete else 'cut off, call it again'}")


def _engine_command(name: str, text: str) -> None:
    def command(
        out: Out = _OUT,
        device: Where = "cuda",
        size: Size = "1.7b",
        rows: Rows = 256,
        minutes: Minutes = 8.0,
        runs: Runs = 20,
    ) -> None:
        _engines(name, out, device, size, rows, minutes, runs)

    command.__doc__ = text
    app.command(name)(command)


for _name, _text in (
    ("bandwidth", "Bytes a second of a copy on the device."),
    ("check", "Kernels against their twins, recorded steps against steps run at once."),
    ("step", "A frame by batch, beside the bytes that it cannot but read."),
    ("host", "Host time of a step by batch."),
    ("prefill", "Prompts by batch and tokens."),
    ("predictor", "The residual codebooks of a frame by batch."),
    ("codec", "The codec by batch and frames: recorded, and operation by operation."),
):
    _engine_command(_name, _text)


@app.command()
def profile(
    out: Out = _OUT, device: Where = "cuda", size: Size = "1.7b", rows: Rows = 64, runs: Runs = 3
) -> None:
    """Where a step's time goes: a table of kernels and a trace for chrome://tracing."""
    from antiphon_bench.gpu.engines import Engines
    from antiphon_bench.gpu.profiles import profiled
    from antiphon_bench.gpu.subject import Subject, device_named

    engines = Engines(Subject(device_named(device), size), rows)  # type: ignore[arg-type]
    records = Records(out, "profile")
    if not records.read():
        for point in profiled(engines, rows, runs, out / "trace.json"):
            records.add(point)
    _said("profile", True)


@app.command()
def weights(out: Out = _OUT, size: Size = "1.7b", seed: int = 0) -> None:
    """Write the checkpoint that the whole stack serves: drawn weights, and no end of speech."""
    from talker.models.qwen3_tts.synthetic import write_checkpoint

    folder = out / f"checkpoint-{size}"
    if not (folder / "done").exists():
        # The end's logit is 0 and never among the likely ones: requests say how long they are.
        write_checkpoint(folder, size, seed=seed, ending=0.0)  # type: ignore[arg-type]
        (folder / "done").touch()
    _said("weights", True)


@app.command()
def bus(
    out: Out = _OUT, rates: str = "1,4,10,20,40", duration: Seconds = 30.0, warmup: Seconds = 5.0,
    minutes: Minutes = 8.0,
) -> None:  # fmt: skip
    """The whole stack on engines that take no time: what the path itself costs."""
    plan = stack.Plan(out / "bus", None, "cpu", duration, warmup, lengths=(0,))
    _loads("bus", plan, out, [{"rate": rate} for rate in _numbers(rates)], minutes)


@app.command(name="open")
def open_(
    out: Out = _OUT, device: Where = "cuda", size: Size = "1.7b", rates: str = "1,4,10,20,40",
    duration: Seconds = 60.0, warmup: Seconds = 5.0, minutes: Minutes = 8.0,
    lengths: Lengths = _LENGTHS,
) -> None:  # fmt: skip
    """The whole stack under open-loop Poisson arrivals; after `weights`."""
    frames = [int(n) for n in _numbers(lengths)]
    served = out / f"checkpoint-{size}"
    plan = stack.Plan(out / "open", served, device, duration, warmup, frames)
    _loads("open", plan, out, [{"rate": rate} for rate in _numbers(rates)], minutes)


@app.command()
def closed(
    out: Out = _OUT, device: Where = "cuda", size: Size = "1.7b", listeners: str = "1,16,64,256",
    duration: Seconds = 60.0, warmup: Seconds = 5.0, minutes: Minutes = 8.0,
    lengths: Lengths = _LENGTHS,
) -> None:  # fmt: skip
    """The whole stack with so many users who ask again and again; after `weights`."""
    frames = [int(n) for n in _numbers(lengths)]
    served = out / f"checkpoint-{size}"
    plan = stack.Plan(out / "closed", served, device, duration, warmup, frames)
    _loads("closed", plan, out, [{"listeners": int(n)} for n in _numbers(listeners)], minutes)


def _loads(name: str, plan: stack.Plan, out: Path, keys: Sequence[Point], minutes: float) -> None:
    records = Records(out, name)
    measure = stack.closed_loop if name == "closed" else stack.open_loop
    if not records.missing(keys):
        _said(name, True)
        return
    with stack.running(plan) as url:
        _said(name, records.fill(keys, partial(measure, plan, url), minutes))


def _numbers(given: str) -> list[float]:
    return [float(part) for part in given.split(",")]


@app.command()
def report(out: Out = _OUT) -> None:
    """Tables and plots of all that was measured."""
    typer.echo(str(reports.write(out)))


@app.command()
def bundle(
    target: Path = Path("build/antiphon-gpu.tar.gz"),
    wheels: Annotated[bool, typer.Option(help="With the packages that are needed.")] = True,
    sources: Annotated[bool, typer.Option(help="With our own sources.")] = True,
    python: Annotated[str, typer.Option(help="The machine's Python.")] = PYTHON,
    present: Annotated[list[str] | None, typer.Option(help="A package it has; repeatable.")] = None,
) -> None:
    """Pack what a machine without a network needs; the only one that uses the network."""
    target.parent.mkdir(parents=True, exist_ok=True)
    told = {"wheels": wheels, "sources": sources}
    size = write_bundle(target, python=python, present=present or (), **told)
    typer.echo(f"{target}: {size} bytes")
