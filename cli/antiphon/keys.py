"""`antiphon keys`: make, rotate, revoke and list API keys in the file that gateways read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from antiphon import keyfile, lists
from antiphon.examples import examples
from antiphon.keyfile import KeyFileError

app = typer.Typer(
    help="API keys, in the file that gateways read (ANTIPHON_KEYS_FILE). A key is shown once: the "
    "file holds its hash. See docs/operations.md, 'API keys'.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Whose key it is: the tenant in metrics and logs.")]
File = Annotated[Path, typer.Option("--file", envvar="ANTIPHON_KEYS_FILE", help="The keys file.")]


@app.command(epilog=examples("keys make"))
def make(
    name: Name,
    file: File = Path("keys.toml"),
    weight: Annotated[float | None, typer.Option(min=0.001, max=1000)] = None,
    streams: Annotated[int | None, typer.Option(min=1, help="At once.")] = None,
    requests_per_minute: Annotated[float | None, typer.Option(min=0.001)] = None,
    characters_per_minute: Annotated[float | None, typer.Option(min=0.001)] = None,
    model: Annotated[list[str] | None, typer.Option(help="It may use; repeatable.")] = None,
    voice: Annotated[list[str] | None, typer.Option(help="It may use; repeatable.")] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="It may use; repeatable.")] = None,
    adapter_uploads: Annotated[int | None, typer.Option(min=0, help="It may keep.")] = None,
    expires: Annotated[datetime | None, typer.Option(help="In UTC.")] = None,
) -> None:
    """Make a key and print it."""
    rights = {
        "weight": weight,
        "streams": streams,
        "requests_per_minute": requests_per_minute,
        "characters_per_minute": characters_per_minute,
        "models": model or None,
        "voices": voice or None,
        "adapters": adapter or None,
        "adapter_uploads": adapter_uploads,
        "expires": expires and expires.replace(tzinfo=UTC),
    }
    with _edited():
        key, text = keyfile.made(_text(file), name, rights)
        keyfile.write(file, text)
    typer.echo(key)


@app.command(epilog=examples("keys rotate"))
def rotate(
    name: Name,
    file: File = Path("keys.toml"),
    finish: Annotated[bool, typer.Option(help="End the previous key; make none.")] = False,
) -> None:
    """Make a new key beside the old one, which works until the next rotation, and print it."""
    with _edited():
        if finish:
            keyfile.write(file, keyfile.finished(_text(file), name))
            return
        key, text = keyfile.rotated(_text(file), name)
        keyfile.write(file, text)
    typer.echo(key)


@app.command(epilog=examples("keys revoke"))
def revoke(name: Name, file: File = Path("keys.toml")) -> None:
    """Remove a key: its next request is refused."""
    with _edited():
        text = keyfile.revoked(_text(file), name)
        keyfile.write(file, text)
    if not keyfile.tenants(text):
        typer.echo("that was the last one: no caller may speak, and no gateway can start", err=True)


@app.command(name="list", epilog=examples("keys list"))
def list_keys(file: File = Path("keys.toml"), as_json: lists.Json = False) -> None:
    """Say whose keys there are, and what each may do."""
    with _edited():
        found = keyfile.tenants(_text(file))
    fields = [field for one in found.values() for field in one if "sha256" not in field]
    columns = list(dict.fromkeys(fields))
    if as_json:
        rows = [{"name": name, **_told(rights, columns)} for name, rights in found.items()]
        lists.dump(rows)
        return
    lists.show(
        ("name", *columns),
        [(name, *(str(rights.get(one, "")) for one in columns)) for name, rights in found.items()],
    )


def _told(rights: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    """What a key may do, without its hash, as JSON has it."""
    plain = (int, float, str, bool, list)
    given = {name: rights[name] for name in columns if name in rights}
    return {name: v if isinstance(v, plain) else str(v) for name, v in given.items()}


def _text(file: Path) -> str:
    return file.read_text("utf-8") if file.exists() else ""


@contextmanager
def _edited() -> Iterator[None]:
    try:
        yield
    except (KeyFileError, OSError) as error:
        Console(stderr=True).print(f"[bold red]antiphon keys:[/] {error}", highlight=False)
        raise typer.Exit(1) from error
