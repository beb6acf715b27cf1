"""The subcommands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from antiphon_bench.gpu import records as reports
from antiphon_bench.gpu import stack
from antiphon_bench.gpu.bundle import PYTHON
from antiphon_bench.gpu.bundle import bundle as write_bundle
from antiphon_bench.gpu.records import Point, Records
from antiphon_bench.gpu.sequence import (
    CUT_OFF,
    IN_ORDER,
    MOST_MINUTES,
    CutOff,
    Part,
    in_order,
    spent_s,
    within,
)
from ttscommon.engine.device.needs import problems

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

Out = Annotated[Path, typer.Option(help="Where points are kept.")]
Where = Annotated[str, typer.Option(help="cuda, cuda:1 or cpu.")]
Size = Annotated[str, typer.Option(help="tiny, 0.6b or 1.7b.")]
Rows = Annotated[int, typer.Option(min=1, help="The largest batch.")]
Minutes = Annotated[float, typer.Option(help="Until it ends by itself, start-up included.")]
Gateways = Annotated[int, typer.Option(min=1, max=8, help="Gateways that share the load.")]
KvBytes = Annotated[int | None, typer.Option(help="Bytes of the KV cache; half of the GPU's.")]
Apart = Annotated[bool, typer.Option("--apart", help="Two processes instead of a pair.")]
Seconds = Annotated[float, typer.Option(help="Of each load.")]
Lengths = Annotated[str, typer.Option(help="Frames that requests ask for, in equal parts.")]
Runs = Annotated[int, typer.Option(min=1, help="Of each point.")]

_OUT: Final = Path("build/gpu")
_LENGTHS: Final = "25,50,75,100"  # 2 to 8 s


def _ready(device: str) -> None:
    """End here, in words, where a GPU is asked for and something that it needs is missing."""
    if device != "cpu" and (missing := problems()):
        typer.echo("\n".join(missing), err=True)
        raise typer.Exit(1)


@contextmanager
def _kept(name: str, most: float) -> Iterator[None]:
    """What is measured until the minutes are over is kept, and the exit status says so."""
    try:
        with within(most):
            yield
    except CutOff:
        _said(name, False)


def _engines(
    name: str, out: Path, device: str, size: str, rows: int, most: float, runs: int, loop_s: float
) -> None:
    from antiphon_bench.gpu.engines import Engines
    from antiphon_bench.gpu.subject import Subject, device_named

    with _kept(name, most):
        engines = Engines(Subject(device_named(device), size), rows, runs)  # type: ignore[arg-type]
        engines.duration_s = loop_s
        points: dict[str, Callable[[], Iterable[Point]]] = {
            "bandwidth": lambda: [{}],
            "check": lambda: [{"what": what} for what in engines.checks],
            "prefill": engines.prompts,
            "codec": engines.codecs.pieces,
            "engine": engines.loops,
        }
        keys = points.get(name, engines.batches)()
        measure = getattr(engines, name)
        least_s = loop_s if name == "engine" else 0.0
        records = Records(out, name)
        done = records.fill(keys, measure, most, spent_s=spent_s(), least_s=least_s)
        _said(name, done)


def _said(name: str, complete: bool) -> None:
    typer.echo(f"{name}: {'complete' if complete else 'cut off, call it again'}")
    if not complete:
        raise typer.Exit(CUT_OFF)


def _engine_command(name: str, text: str) -> None:
    def command(
        out: Out = _OUT,
        device: Where = "cuda",
        size: Size = "1.7b",
        rows: Rows = 256,
        minutes: Minutes = MOST_MINUTES,
        runs: Runs = 20,
        loop: Seconds = 15.0,
    ) -> None:
        _ready(device)
        _engines(name, out, device, size, rows, minutes, runs, loop)

    command.__doc__ = text
    app.command(name)(command)


for _name, _text in (
    ("bandwidth", "Bytes a second of a copy on the device."),
    ("check", "Kernels against their twins, recorded steps against steps run at once."),
    ("step", "A frame by batch, beside the bytes that it cannot but read."),
    ("host", "Host time of whole turns by batch: plan, launch, accept and send."),
    ("prefill", "Prompts by batch and tokens."),
    ("predictor", "The residual codebooks of a frame by batch."),
    ("codec", "The codec by batch and frames: recorded, and operation by operation."),
    ("engine", "Both engines without a bus: sound a second and first sound, by streams."),
):
    _engine_command(_name, _text)


@app.command()
def profile(
    out: Out = _OUT, device: Where = "cuda", size: Size = "1.7b", rows: Rows = 64, runs: Runs = 3,
    minutes: Minutes = MOST_MINUTES,
) -> None:  # fmt: skip
    """Where a step's time goes: a table of kernels and a trace for chrome://tracing."""
    _ready(device)
    from antiphon_bench.gpu.engines import Engines, profiled
    from antiphon_bench.gpu.subject import Subject, device_named

    records = Records(out, f"profile-{rows}")
    with _kept("profile", minutes):
        if not records.read():
            engines = Engines(Subject(device_named(device), size), rows)  # type: ignore[arg-type]
            # All or none: half a table would count as measured.
            for point in list(profiled(engines, rows, runs, out / f"trace-{rows}.json")):
                records.add(point)
        _said("profile", True)


@app.command()
def weights(out: Out = _OUT, size: Size = "1.7b", seed: int = 0) -> None:
    """Write the checkpoint that the whole stack serves: drawn weights, and no end of speech."""
    from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

    folder = out / f"checkpoint-{size}"
    if not (folder / "done").exists():
        # The end's logit is 0 and never among the likely ones: requests say how long they are.
        write_checkpoint(folder, size, seed=seed, ending=0.0)  # type: ignore[arg-type]
        (folder / "done").touch()
    _said("weights", True)


@app.command()
def bus(
    out: Out = _OUT, rates: str = "1,4,10,20,40", duration: Seconds = 30.0, warmup: Seconds = 5.0,
    minutes: Minutes = MOST_MINUTES, gateways: Gateways = 2,
) -> None:  # fmt: skip
    """The whole stack on engines that take no time: what the path itself costs."""
    plan = stack.Plan(out / "bus", None, "cpu", duration, warmup, lengths=(0,), gateways=gateways)
    _loads("bus", plan, [{"rate": rate} for rate in _numbers(rates)], minutes)


@app.command(name="open")
def open_(
    out: Out = _OUT, device: Where = "cuda", size: Size = "1.7b", rates: str = "1,4,10,20,40",
    duration: Seconds = 60.0, warmup: Seconds = 5.0, minutes: Minutes = MOST_MINUTES,
    lengths: Lengths = _LENGTHS, gateways: Gateways = 2, kv: KvBytes = None, apart: Apart = False,
) -> None:  # fmt: skip
    """The whole stack under open-loop Poisson arrivals; after `weights`."""
    name = "open-apart" if apart else "open"
    plan = _plan(name, out, size, device, duration, warmup, lengths, gateways, kv, apart)
    _loads(name, plan, [{"rate": rate} for rate in _numbers(rates)], minutes)


@app.command()
def closed(
    out: Out = _OUT, device: Where = "cuda", size: Size = "1.7b", listeners: str = "1,16,64,256",
    duration: Seconds = 60.0, warmup: Seconds = 5.0, minutes: Minutes = MOST_MINUTES,
    lengths: Lengths = _LENGTHS, gateways: Gateways = 4, kv: KvBytes = None, apart: Apart = False,
) -> None:  # fmt: skip
    """The whole stack with so many users who ask again and again; after `weights`."""
    name = "closed-apart" if apart else "closed"
    plan = _plan(name, out, size, device, duration, warmup, lengths, gateways, kv, apart)
    _loads(name, plan, [{"listeners": int(n)} for n in _numbers(listeners)], minutes)


def _plan(
    name: str, out: Path, size: str, device: str, duration: float, warmup: float, lengths: str,
    gateways: int, kv: int | None, apart: bool,
) -> stack.Plan:  # fmt: skip
    _ready(device)
    frames = [int(n) for n in _numbers(lengths)]
    served = out / f"checkpoint-{size}"
    # Two processes would each take most of what is free.
    kv = kv if kv is not None or device == "cpu" else _kv_bytes()
    return stack.Plan(out / name, served, device, duration, warmup, frames, gateways, kv, apart)


def _kv_bytes() -> int:
    """Half of the GPU's memory."""
    import torch

    return int(torch.cuda.mem_get_info()[1] // 2)


def _loads(name: str, plan: stack.Plan, keys: Sequence[Point], most: float) -> None:
    records = Records(plan.out.parent, name)
    measure = stack.closed_loop if name.startswith("closed") else stack.open_loop
    with _kept(name, most):
        if not records.missing(keys):
            _said(name, True)
            return
        with stack.running(plan) as served:
            least_s = plan.duration_s + plan.warmup_s
            one = partial(measure, plan, served)
            done = records.fill(keys, one, most, spent_s=spent_s(), least_s=least_s)
        _said(name, done)


def _numbers(given: str) -> list[float]:
    return [float(part) for part in given.split(",")]


@app.command(name="all")
def all_(
    out: Out = _OUT, device: Where = "cuda", size: Size = "1.7b",
    minutes: Annotated[float, typer.Option(help="Of this call; call it again for the rest.")] = 60,
) -> None:  # fmt: skip
    """Everything in order, what decides most first; goes on where it was cut off."""
    _ready(device)

    def shared(part: Part) -> Sequence[str]:
        if part.name == "bus":
            return ()
        on = () if part.name == "weights" else ("--device", device)
        return (*on, "--size", size)

    done = in_order(IN_ORDER, out, shared, minutes)
    typer.echo(str(reports.write(out)))
    _said("all", done)


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
