"""Before a start: its settings, device, models and kernels, and how long it may take."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from antiphon.stack.local import Engine
from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from ttscommon.engine.kernels import ahead
from ttscommon.process.settings import NESTED, PREFIX, ServiceSettings, is_service_link
from ttsfamilies.published import Telling
from vocoder.settings import VocoderSettings

_KINDS: Final[Mapping[str, type[ServiceSettings]]] = MappingProxyType(
    {
        "gateway": GatewaySettings,
        "talker": TalkerSettings,
        "vocoder": VocoderSettings,
    }
)

# What other commands read.
_OTHERS: Final = frozenset({"URL", "API_KEY", "DEBUG", "MODELS_PER_WORKER"})

# What `antiphon up` decides itself, and how it is told.
_DECIDED: Final = MappingProxyType(
    {
        "HOST": "use --host",
        "PORT": "use --port",
        "ENGINE": "use --engine",
        "DEVICE": "use --device",
        "MODELS": "use --model",
        "LOG_LEVEL": "use --log-level",
        "LOG_FORMAT": "use --json",
        "ADMIN_PORT": "every process takes a free one",
        "PORT_FILE": "every process has its own",
        "BUS": "it starts a broker of its own",
    }
)


class UnknownSetting(Exception):
    """A variable that no service would take; the text says which and why."""


def settings_in(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The ANTIPHON_... variables by stage; raises UnknownSetting."""
    found: dict[str, dict[str, str]] = {stage: {} for stage in _KINDS}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or is_service_link(variable, value):
            continue
        name = variable.removeprefix(PREFIX).split(NESTED)[0]
        if name in _OTHERS:
            continue
        for stage in _stages_of(variable, name):
            found[stage][variable] = value
    return found


def own_settings() -> dict[str, dict[str, str]]:
    """Those of this process's environment; raises typer.BadParameter."""
    try:
        return settings_in(os.environ)
    except UnknownSetting as error:
        raise typer.BadParameter(str(error), param_hint="environment") from error


def _names(kind: type[ServiceSettings]) -> set[str]:
    """Of its settings, old ones that it still reads among them."""
    return {*kind.model_fields, *(old.removeprefix(PREFIX).lower() for old in kind.renamed)}


def _stages_of(variable: str, name: str) -> list[str]:
    if name in _DECIDED:
        raise UnknownSetting(f"{variable}: `antiphon up` decides this itself: {_DECIDED[name]}")
    stages = [stage for stage, kind in _KINDS.items() if name.lower() in _names(kind)]
    if not stages:
        known = {field.upper() for kind in _KINDS.values() for field in _names(kind)}
        hint = _meant(name, known, PREFIX)
        raise UnknownSetting(f"{variable}: no service has such a setting{hint}")
    return stages


def require_setting(stage: str, name: str) -> None:
    """Raises UnknownSetting where the services of a stage have none of this name."""
    known = _names(_KINDS[stage])
    if name.split(NESTED.lower())[0] not in known:
        hint = _meant(name, known, f"{stage}.")
        raise UnknownSetting(f"{stage}.{name}: there is no such setting{hint}")


def _meant(name: str, known: Collection[str], before: str) -> str:
    """The end of an error: the one of the known names that is most like it, if any is."""
    close = get_close_matches(name, known, 1)
    return f"; did you mean {before}{close[0]}?" if close else ""


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
