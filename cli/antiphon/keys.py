"""`antiphon keys`: make, rotate, revoke and list API keys in the file that gateways read."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from antiphon import printing
from antiphon.examples import examples
from antiphon.printing import fail

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEADER: Final = re.compile(r"^\s*\[", re.MULTILINE)
_EMPTY: Final = "[keys]\n"
_SHA256: Final = "sha256"
_PREVIOUS: Final = "previous_sha256"
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
    weight: Annotated[
        float | None,
        typer.Option(
            metavar="N", min=0.001, max=1000, help="Its share under load; 1 if not given."
        ),
    ] = None,
    streams: Annotated[int | None, typer.Option(metavar="N", min=1, help="At once.")] = None,
    requests_per_minute: Annotated[
        float | None, typer.Option(metavar="N", min=0.001, help="At most; any number if not given.")
    ] = None,
    characters_per_minute: Annotated[
        float | None, typer.Option(metavar="N", min=0.001, help="Likewise.")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="It may use; repeatable.")] = None,
    voice: Annotated[list[str] | None, typer.Option(help="It may use; repeatable.")] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="It may use; repeatable.")] = None,
    adapter_uploads: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="It may keep.")
    ] = None,
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
        key, text = made(_text(file), name, rights)
        write(file, text)
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
            write(file, finished(_text(file), name))
            return
        key, text = rotated(_text(file), name)
        write(file, text)
    typer.echo(key)


@app.command(epilog=examples("keys revoke"))
def revoke(name: Name, file: File = Path("keys.toml")) -> None:
    """Remove a key: its next request is refused."""
    with _edited():
        text = revoked(_text(file), name)
        write(file, text)
    if not tenants(text):
        typer.echo("that was the last one: no caller may speak, and no gateway can start", err=True)


@app.command(name="list", epilog=examples("keys list"))
def list_keys(file: File = Path("keys.toml"), as_json: printing.Json = False) -> None:
    """Say whose keys there are, and what each may do."""
    with _edited():
        found = tenants(_text(file))
    fields = [field for one in found.values() for field in one if "sha256" not in field]
    columns = list(dict.fromkeys(fields))
    if as_json:
        rows = [{"name": name, **_rights(rights, columns)} for name, rights in found.items()]
        printing.dump(rows)
        return
    printing.show(
        ("name", *columns),
        [(name, *(str(rights.get(one, "")) for one in columns)) for name, rights in found.items()],
    )


def _rights(rights: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
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
        fail("keys", error)


class KeyFileError(Exception):
    """The file, or what is asked for, makes no sense; the text says why."""


def new_key() -> tuple[str, str]:
    """A key and its hash."""
    key = f"ak-{secrets.token_urlsafe(32)}"
    return key, hashlib.sha256(key.encode()).hexdigest()


def tenants(text: str) -> dict[str, dict[str, Any]]:
    """What the file says of each tenant; raises KeyFileError."""
    try:
        found = tomllib.loads(text).get("keys", {})
    except tomllib.TOMLDecodeError as error:
        raise KeyFileError(str(error)) from error
    return {name: one for name, one in found.items() if isinstance(one, dict)}


def made(text: str, name: str, rights: Mapping[str, Any]) -> tuple[str, str]:
    """The key of a new tenant, and the text with it."""
    if not _NAME.fullmatch(name):
        raise KeyFileError("a name has letters, digits, '-' and '_', at most 64")
    if name in tenants(text):
        raise KeyFileError(f"there is a key '{name}' already: rotate or revoke it")
    key, digest = new_key()
    given = {_SHA256: digest, **{k: v for k, v in rights.items() if v is not None}}
    lines = [f"{field} = {_value(value)}" for field, value in given.items()]
    before = f"{text.rstrip()}\n\n" if text.strip() else ""
    return key, before + "\n".join([f"[keys.{name}]", *lines]) + "\n"


def rotated(text: str, name: str) -> tuple[str, str]:
    """A tenant's new key, and the text with it; the old one is kept as the previous one."""
    block = _block(text, name)
    old = tenants(text)[name][_SHA256]
    key, digest = new_key()
    fresh = _without(block, _PREVIOUS)
    pair = f'{_SHA256} = "{digest}"\n{_PREVIOUS} = "{old}"'
    fresh = re.sub(rf"^\s*{_SHA256}\s*=.*$", pair, fresh, count=1, flags=re.MULTILINE)
    return key, text.replace(block, fresh, 1)


def finished(text: str, name: str) -> str:
    """The text without a tenant's previous key."""
    block = _block(text, name)
    if _PREVIOUS not in tenants(text)[name]:
        raise KeyFileError(f"'{name}' has no previous key")
    return text.replace(block, _without(block, _PREVIOUS), 1)


def revoked(text: str, name: str) -> str:
    """The text without a tenant. Without any, no caller may speak."""
    left = text.replace(_block(text, name), "", 1)
    return left if tenants(left) else f"{_EMPTY}{left}"


def write(path: Path, text: str) -> None:
    """Replace the file at once, readable by those who could read it before; raises OSError."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_text(text, "utf-8")
    if path.exists():
        fresh.chmod(path.stat().st_mode & 0o777)
    fresh.replace(path)


def _block(text: str, name: str) -> str:
    """A tenant's lines, up to the next table."""
    if name not in tenants(text):
        raise KeyFileError(f"there is no key '{name}'")
    head = re.search(rf"^\s*\[keys\.(\"?){re.escape(name)}\1\].*$\n?", text, re.MULTILINE)
    if head is None:
        raise KeyFileError(f"'{name}' does not stand in a table [keys.{name}]: edit it by hand")
    after = _HEADER.search(text, head.end())
    return text[head.start() : after.start() if after else len(text)]


def _without(block: str, field: str) -> str:
    return re.sub(rf"^\s*{field}\s*=.*\n?", "", block, flags=re.MULTILINE)


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return json.dumps(value, ensure_ascii=False)
