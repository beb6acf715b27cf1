"""`antiphon bus`: prepare a broker for a deployment, and say who may do what on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.examples import examples
from antiphon.printing import fail
from ttscommon.bus.backup import back_up, restore
from ttscommon.bus.credentials import accounts
from ttscommon.bus.setup import Action, prepare
from ttscommon.process.settings import BusSettings, ServiceSettings, SettingsError
from ttscommon.wire.errors import AntiphonError

app = typer.Typer(
    help="Prepare a broker. Where it is and who we are comes from ANTIPHON_BUS__..., as in every "
    "service; see docs/operations.md.",
    no_args_is_help=True,
)


Models = Annotated[
    list[str] | None, typer.Option("--model", help="A model that is served; repeatable.")
]


@app.command(epilog=examples("bus create"))
def create(model: Models = None) -> None:
    """Create the streams that are missing, and change none."""
    _run("create", model)


@app.command(epilog=examples("bus migrate"))
def migrate(model: Models = None) -> None:
    """Create what is missing and change what differs."""
    _run("migrate", model)


@app.command(epilog=examples("bus check"))
def check(model: Models = None) -> None:
    """Say what is not as these settings want it; exit status 1 if anything is."""
    _run("check", model)


@app.command(epilog=examples("bus backup"))
def backup(
    folder: Annotated[Path, typer.Argument(help="Where backups are kept.")],
    keep: Annotated[int | None, typer.Option(min=1, help="Remove all but so many.")] = None,
) -> None:
    """Write voices and recordings into a folder, as the user `backup`."""
    _done(lambda settings: back_up(settings, folder, keep))


@app.command(name="restore", epilog=examples("bus restore"))
def restore_command(
    folder: Annotated[Path, typer.Argument(help="A backup, or a folder of them: the newest.")],
    replace: Annotated[bool, typer.Option(help="Also remove what the broker has.")] = False,
) -> None:
    """Bring voices and recordings back, as the user `setup`."""
    _done(lambda settings: restore(settings, folder, replace=replace))


@app.command(name="accounts", epilog=examples("bus accounts"))
def accounts_command(
    model: Annotated[list[str], typer.Option(help="A model that is served; repeatable.")],
    prefix: Annotated[str, typer.Option(help="The deployment's.")] = BusSettings().prefix,
) -> None:
    """Print the accounts for a broker's configuration: one for each service, and its user."""
    typer.echo(accounts(prefix, model), nl=False)


def _run(action: Action, models: list[str] | None) -> None:
    _done(lambda settings: prepare(settings, action, models or ()))


def _done(action: Callable[[BusSettings], Coroutine[Any, Any, str]]) -> None:
    """Do it and say what was done; exit status 2 for settings, 1 for everything else."""
    try:
        typer.echo(asyncio.run(action(ServiceSettings.load().bus)))
    except SettingsError as error:
        fail("bus", error, status=2)
    except AntiphonError as error:
        fail("bus", error, error.message)
    except OSError as error:
        fail("bus", error)
