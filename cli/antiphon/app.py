"""The `antiphon` command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from antiphon import bus, doctor, files, keys, listen
from antiphon import plan as plan_command
from antiphon import read as read_command
from antiphon import up as up_command
from antiphon.examples import examples
from antiphon.printing import fail, flowing, needs_bench
from antiphon.stack import StackConfig
from antiphon.stack.checkpoints import Checkpoint, named
from antiphon.stack.local import Engine, LogLevel
from antiphon.stack.voices import VoiceMissing, default_voice
from antiphon.starting import (
    UnknownSetting,
    own_settings,
    require_device,
    require_setting,
    start_timeout_s,
    telling,
    unused_gpu,
)
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.process.settings import PREFIX

app = typer.Typer(
    help="Streaming text-to-speech on this machine.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

_DEBUG: Final = "ANTIPHON_DEBUG"
_EXIT_UNFORESEEN: Final = 70
_ENGINES = ("talker", "vocoder")
_STAGES = ("gateway", *_ENGINES)


app.add_typer(bus.app, name="bus")
app.add_typer(keys.app, name="keys")
_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "say": listen.say,
    "read": read_command.read,
    "voices": listen.voices,
    "models": listen.models,
    "detect": files.detect,
    "doctor": doctor.doctor,
    "plan": plan_command.plan,
    "convert": files.convert_checkpoint,
}
for _name, _command in _COMMANDS.items():
    app.command(_name, epilog=examples(_name))(_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antiphon {version('antiphon-cli')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show it and leave."),
    ] = False,
) -> None:
    """Streaming text-to-speech on this machine."""


@app.command(epilog=examples("up"))
def up(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="HTTP port; 0 takes a free one.")
    ] = 8000,
    host: Annotated[str, typer.Option(help="Address the gateway listens on.")] = "127.0.0.1",
    engine: Annotated[Engine, typer.Option(help="Real voice, or fake engines.")] = "torch",
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TALKER",
            help="Serve a published checkpoint, by folder or hub name, next to the default voice;"
            " ,codec=CODEC names one that lies elsewhere, ,device=DEVICE where it computes;"
            " repeatable.",
        ),
    ] = None,
    models_per_worker: Annotated[
        int,
        typer.Option(
            min=1,
            max=256,
            envvar=f"{PREFIX}MODELS_PER_WORKER",
            show_envvar=False,  # help has no room for it in a line of 80
            help="Small models that share a talker's and a vocoder's process, on a CPU.",
        ),
    ] = 16,
    talkers: Annotated[int, typer.Option(min=1, max=64, help="Talker processes.")] = 1,
    vocoders: Annotated[int, typer.Option(min=1, max=64, help="Vocoder processes.")] = 1,
    pair: Annotated[
        bool, typer.Option("--pair", help="Both engines in one process, to share a GPU.")
    ] = False,
    gateways: Annotated[
        int, typer.Option(min=1, max=64, help="Gateways; those beyond the first take free ports.")
    ] = 1,
    device: Annotated[str, typer.Option(help="Where engines compute: cpu, cuda, cuda:1.")] = "cpu",
    brokers: Annotated[int, typer.Option(help="1, or 3 for a local cluster with replicas.")] = 1,
    broker_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Broker port; 0: a free one.")
    ] = 0,
    store: Annotated[Path | None, typer.Option(help="Keep the broker's files here.")] = None,
    curve: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Step times of --engine fake, by `calibrate`."
        ),
    ] = None,
    start_timeout: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Seconds that models are waited for, by default 120 on a CPU and 400 on a GPU."
            " What is ready by then is served; the others join when they are.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="STAGE.NAME=VALUE", help="A service's setting; repeatable."),
    ] = None,
    log_level: Annotated[
        LogLevel,
        typer.Option(metavar="LEVEL", help="Least level shown: debug, info, warning, error."),
    ] = "info",
    json_log: Annotated[bool, typer.Option("--json", help="Log as the services write it.")] = False,
) -> None:
    """Run broker, gateway, talkers and vocoders, supervised, with one log.

    Services get the ANTIPHON_... variables of the environment that are settings of theirs; --set
    comes first.
    """
    if brokers not in (1, 3):
        raise typer.BadParameter("1 or 3", param_hint="--brokers")
    if curve is not None and engine != "fake":
        raise typer.BadParameter("only --engine fake keeps a curve", param_hint="--curve")
    if model and engine != "torch":
        raise typer.BadParameter("only --engine torch computes checkpoints", param_hint="--model")
    if pair and talkers != vocoders:
        raise typer.BadParameter("as many talkers as vocoders", param_hint="--pair")
    models, left_out = _checkpoints(model or [])
    for one in {device, *(one.device or device for one in models)}:
        require_device(one)
    on_cpu = device == "cpu" and all((one.device or device) == "cpu" for one in models)
    if on_cpu and engine == "torch" and (hint := unused_gpu()):
        Console(stderr=True).print(hint, style="yellow", highlight=False, soft_wrap=True)
    environ = own_settings()
    for stage, given in _stage_settings([*_curves(curve), *(set_ or [])]).items():
        environ[stage].update(given)
    config = StackConfig(
        host=host,
        port=port,
        broker_port=broker_port,
        brokers=3 if brokers == 3 else 1,
        gateways=gateways,
        start_timeout_s=start_timeout or start_timeout_s(on_cpu=on_cpu),
        talkers=talkers,
        vocoders=vocoders,
        pair=pair,
        device=device,
        engine=engine,
        models=models,
        models_per_worker=models_per_worker,
        left_out=left_out,
        log_level=log_level,
        store=store,
        environ=environ,
    )
    raise typer.Exit(up_command.run(config, Console(), raw=json_log))


def _checkpoints(given: list[str]) -> tuple[tuple[Checkpoint, ...], dict[str, str]]:
    """Those that can be read, and why the others cannot, by name."""
    try:
        names = [named(one)[0] for one in given]
    except CheckpointError as error:
        raise typer.BadParameter(str(error), param_hint="--model") from error
    if len(set(names)) < len(names):
        raise typer.BadParameter("every model needs a name of its own", param_hint="--model")
    found, left_out = [], {}
    for name, one in zip(names, given, strict=True):
        try:
            with telling(name, Console(stderr=True)) as told:
                found.append(Checkpoint.parse(one, told))
        except CheckpointError as error:
            left_out[name] = str(error)
    return tuple(found), left_out


@app.command(epilog=examples("calibrate"))
def calibrate(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for the curves.")] = Path(
        "curves"
    ),
    voice_dir: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="The voice to measure, if not vesper."),
    ] = None,
) -> None:
    """Measure the engines' step times here, for `up --engine fake --curve` anywhere."""
    try:
        folder = voice_dir or default_voice()
    except VoiceMissing as error:
        raise typer.BadParameter(str(error), param_hint="--voice-dir") from error
    out.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, f"{PREFIX}VOICE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    for stage in _ENGINES:
        command = [sys.executable, "-m", f"{stage}.calibrate", str(out / f"{stage}.json")]
        if subprocess.run(command, env=environ, check=False).returncode:
            raise typer.Exit(1)
        typer.echo(out / f"{stage}.json")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def bench(context: typer.Context) -> None:
    """Measure a streaming speech server as its listeners hear it."""
    try:
        from antiphon_bench.cli import app as bench_app
    except ImportError as error:
        fail("bench", error, needs_bench())
    bench_app(context.args, prog_name="antiphon bench")


for _registered in app.registered_commands:
    _registered.help = flowing(_registered.callback)


def _curves(folder: Path | None) -> list[str]:
    """The settings that make the fake engines keep the curves of a folder."""
    if folder is None:
        return []
    return [f"{stage}.fake_curve={(folder / f'{stage}.json').resolve()}" for stage in _ENGINES]


def _stage_settings(assignments: list[str]) -> dict[str, dict[str, str]]:
    """`talker.slots=8` as the environment of the talkers."""
    environ: dict[str, dict[str, str]] = {stage: {} for stage in _STAGES}
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        stage, _, name = path.partition(".")
        if not equals or not name or stage not in _STAGES:
            hint = f"{assignment!r} is not STAGE.NAME=VALUE with one of {', '.join(_STAGES)}"
            raise typer.BadParameter(hint, param_hint="--set")
        try:
            require_setting(stage, name.lower())
        except UnknownSetting as error:
            raise typer.BadParameter(str(error), param_hint="--set") from error
        environ[stage][PREFIX + name.upper()] = value
    return environ


def main() -> None:
    """Entry point of the console script: what was not foreseen is a line, unless asked for more."""
    try:
        app()
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        hint = f"{_DEBUG}=1 shows where"
        typer.echo(f"antiphon: {type(error).__name__}: {error} ({hint})", err=True)
        sys.exit(_EXIT_UNFORESEEN)
