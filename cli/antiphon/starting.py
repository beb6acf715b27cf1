"""Before a start: its device, models and kernels, and how long it may take."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from antiphon.stack.local import Engine
from ttscommon.engine.kernels import ahead
from ttsfamilies.published import Telling

_CPU_START_S: Final = 120.0
# Kernels are compiled and graphs recorded at the first start.
_GPU_START_S: Final = 400.0
# Of a machine with an NVIDIA driver: a folder for each GPU.
_GPUS: Final = Path("/proc/driver/nvidia/gpus")


def start_timeout_s(*, on_cpu: bool) -> float:
    """For how long models are waited for."""
    return _CPU_START_S if on_cpu else _GPU_START_S


def require_device(name: str) -> None:
    """Raises BadParameter for one that is not there."""
    if name == "cpu":
        return
    # Loading torch takes a second, which other commands need not wait for.
    from ttscommon.engine.device.present import NoDevice, check_device

    try:
        check_device(name)
    except NoDevice as error:
        raise typer.BadParameter(str(error), param_hint="--device") from error


def unused_gpu(folder: Path = _GPUS) -> str | None:
    """What to say to who computes on the CPU beside a GPU; None where there is none."""
    found = sorted(folder.glob("*/information"))
    if not found:
        return None
    lines = found[0].read_text("utf-8", "replace").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    name = models[0] if models else "NVIDIA"
    return f"a GPU is here ({name}), and engines compute on the CPU: --device cuda takes it"


@contextmanager
def telling(name: str, console: Console) -> Iterator[Telling]:
    """Lines of a model, and a bar while its pickles are converted."""
    columns = (TextColumn(f"{name}: converting"), BarColumn(), DownloadColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", visible=False)

        def say(line: str) -> None:
            bar.console.print(f"{name}: {line}", style="dim", markup=False, soft_wrap=True)

        def shown(done: int, whole: int) -> None:
            bar.update(task, completed=done, total=whole, visible=done < whole)

        yield Telling(say, shown)


def compile_missing(engine: Engine, console: Console) -> None:
    """In front of the services: each of them would do it in silence, against its time to start."""
    if engine != "torch" or ahead.compiled():
        return
    console.print("compiling kernels for this machine, once: about a minute", style="dim")
    # Where it fails, the services compile, and say why they cannot.
    subprocess.run([sys.executable, "-m", ahead.__name__], check=False)
