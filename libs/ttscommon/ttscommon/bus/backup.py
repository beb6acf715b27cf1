"""Backups of what a broker keeps permanently: voices, their recordings, what was derived of them.

A backup is a folder: one packed stream in a file each, and `manifest.json`, which is written last.
Logs, jobs and leases live for minutes and are in none.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ttscommon.bus.faults import Unreachable, available, reason
from ttscommon.bus.layout import SCHEMA, kept_streams
from ttscommon.bus.link import Link
from ttscommon.bus.setup import Setup
from ttscommon.process.settings import BusSettings
from ttscommon.wire.errors import AntiphonError, BusUnavailable

T = TypeVar("T")

_API: Final = "$JS.API.STREAM"
_PIECE_BYTES: Final = 128 << 10
# Between two pieces; a restore's last answer waits until the server has read all.
_PIECE_S: Final = 30.0
_RESTORED_S: Final = 600.0
# Until every server of a cluster knows who listens for a restore's pieces.
_KNOWN_S: Final = 10.0
_KNOWN_PAUSE_S: Final = 0.05
MANIFEST: Final = "manifest.json"
_PARTIAL: Final = ".partial"
_NAMED: Final = "%Y-%m-%dT%H-%M-%SZ"


class BackupUnusable(AntiphonError, code="bad_request"):
    """A backup cannot be made or restored; the text says why."""


async def back_up(settings: BusSettings, folder: Path, keep: int | None = None) -> str:
    """Write a backup into `folder`, as the user `backup`, and leave the `keep` newest there.

    Raises BackupUnusable, BusUnavailable, BusRefused, OSError.
    """
    made = folder / datetime.now(UTC).strftime(_NAMED)
    if made.exists():
        raise BackupUnusable(f"there is a backup {made} already")
    partial = made.with_suffix(_PARTIAL)
    link = await Link.connect(settings, "backup")
    try:
        partial.mkdir(parents=True)
        manifest = await _written(Snapshots(link), settings.prefix, partial)
        partial.rename(made)
    finally:
        await link.close()
        shutil.rmtree(partial, ignore_errors=True)
    for old in _backups(folder)[: -keep or None] if keep else []:
        await asyncio.to_thread(shutil.rmtree, old)
    return f"{made}: {_said(manifest)}"


async def restore(settings: BusSettings, folder: Path, *, replace: bool = False) -> str:
    """Bring a backup, or the newest of a folder of them, back, as the user `setup`.

    Streams that hold anything are left alone unless `replace` is given: nothing at all is changed
    then. Raises BackupUnusable, BusUnprepared, BusUnavailable, BusRefused.
    """
    found = await asyncio.to_thread(_read, folder, settings.prefix)
    link = await Link.connect(settings, "setup")
    try:
        snapshots, setup = Snapshots(link), Setup(link)
        replicas = await setup.replicas()
        await _make_way(snapshots, list(found.values()), replace=replace)
        for path, snapshot in found.items():
            await snapshots.restore(snapshot, path, replicas)
        await setup.migrate()
    finally:
        await link.close()
    return f"restored {next(iter(found)).parent}: {_said(list(found.values()))}"


async def _written(snapshots: Snapshots, prefix: str, folder: Path) -> list[StreamSnapshot]:
    """Voices before their recordings: no voice lacks one that was added before it."""
    taken = [await snapshots.take(name, folder / _file(name)) for name in kept_streams(prefix)]
    manifest = {
        "prefix": prefix,
        "schema": SCHEMA,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "streams": [asdict(one) for one in taken],
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
    return taken


async def _make_way(snapshots: Snapshots, found: list[StreamSnapshot], *, replace: bool) -> None:
    held = {one.stream: await snapshots.messages(one.stream) for one in found}
    full = [f"{name} has {count} records" for name, count in held.items() if count]
    if full and not replace:
        raise BackupUnusable(f"{', '.join(full)}; `--replace` removes them")
    for name, count in held.items():
        if count is not None:
            await snapshots.delete(name)


def _read(folder: Path, prefix: str) -> dict[Path, StreamSnapshot]:
    """The backup's snapshots by their files, all of them whole; raises BackupUnusable."""
    if not (folder / MANIFEST).exists():
        backups = _backups(folder)
        if not backups:
            raise BackupUnusable(f"there is no backup in {folder}")
        folder = backups[-1]
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        made_of = manifest["prefix"]
        snapshots = [StreamSnapshot(**one) for one in manifest["streams"]]
    except (ValueError, KeyError, TypeError) as error:
        raise BackupUnusable(f"{folder / MANIFEST} is no manifest") from error
    if made_of != prefix:
        raise BackupUnusable(f"{folder} is a backup of the deployment '{made_of}'")
    for one in snapshots:
        if _sha256(folder / _file(one.stream)) != one.sha256:
            raise BackupUnusable(f"{folder / _file(one.stream)} is not what was written")
    return {folder / _file(one.stream): one for one in snapshots}


def _backups(folder: Path) -> list[Path]:
    """Whole backups, the oldest first."""
    found = (path.parent for path in folder.glob(f"*/{MANIFEST}"))
    return sorted(path for path in found if path.suffix != _PARTIAL)


def _file(stream: str) -> str:
    return f"{stream}.snapshot"


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BackupUnusable(f"{path}: {error.strerror}") from error


def _said(snapshots: list[StreamSnapshot]) -> str:
    return ", ".join(f"{one.stream} {one.messages} records" for one in snapshots)


@dataclass(frozen=True)
class StreamSnapshot:
    """A stream as it was. `sha256` is that of the packed stream, `state` the server's words."""

    stream: str
    config: dict[str, Any]
    state: dict[str, Any]
    sha256: str

    @property
    def messages(self) -> int:
        return int(self.state.get("messages", 0))


class Snapshots:
    """Takes and restores them. Every method raises BusUnavailable."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def take(self, stream: str, path: Path) -> StreamSnapshot:
        """Write `stream`, packed, to `path`."""
        inbox = self._link.client.new_inbox()
        async with self._subscribed(inbox, stream) as pieces:
            body = {"deliver_subject": inbox, "no_consumers": True, "chunk_size": _PIECE_BYTES}
            found = await self._ask("SNAPSHOT", stream, body)
            digest = hashlib.sha256()
            with path.open("wb") as file:
                while data := await self._piece(pieces, stream):
                    digest.update(data)
                    await asyncio.to_thread(file.write, data)
        return StreamSnapshot(stream, found["config"], found["state"], digest.hexdigest())

    async def restore(self, snapshot: StreamSnapshot, path: Path, replicas: int) -> None:
        """Make the stream of `path`, in so many copies; it must not exist."""
        config = {**snapshot.config, "num_replicas": replicas}
        body = {"config": config, "state": snapshot.state}
        subject = (await self._ask("RESTORE", snapshot.stream, body))["deliver_subject"]
        with path.open("rb") as file:
            while data := await asyncio.to_thread(file.read, _PIECE_BYTES):
                await self._send(snapshot.stream, subject, data, _PIECE_S)
        await self._send(snapshot.stream, subject, b"", _RESTORED_S)

    async def messages(self, stream: str) -> int | None:
        """How many records the stream has; None if there is no such stream."""
        with available(f"could not ask for {stream}"):
            try:
                return int((await self._link.jetstream.stream_info(stream)).state.messages)
            except nats.js.errors.NotFoundError:
                return None

    async def delete(self, stream: str) -> None:
        with available(f"could not delete {stream}"):
            await self._link.jetstream.delete_stream(stream)

    @asynccontextmanager
    async def _subscribed(self, inbox: str, stream: str) -> AsyncIterator[Subscription]:
        client = self._link.client
        pieces = await self._named(stream, lambda: client.subscribe(inbox))
        try:
            yield pieces
        finally:
            await pieces.unsubscribe()

    async def _piece(self, pieces: Subscription, stream: str) -> bytes:
        """The next piece, acknowledged; empty at the end."""
        message = await self._named(stream, lambda: pieces.next_msg(timeout=_PIECE_S))
        headers = message.headers or {}
        if headers.get("Status", "204") not in ("200", "204"):
            text = headers.get("Description", headers["Status"])
            raise BusUnavailable(f"{stream}: {text}")
        if message.data and message.reply:
            await self._named(stream, lambda: message.respond(b""))
        return bytes(message.data)

    async def _send(self, stream: str, subject: str, data: bytes, timeout_s: float) -> None:
        answer = await self._named(stream, lambda: self._heard(subject, data, timeout_s))
        if answer.data:
            _checked(stream, answer.data)

    async def _heard(self, subject: str, data: bytes, timeout_s: float) -> Msg:
        """The answer. Who listens may be another server, of which this one hears a moment later;
        what reached no reader is sent again.
        """
        end_s = time.monotonic() + _KNOWN_S
        while True:
            try:
                return await self._link.client.request(subject, data, timeout=timeout_s)
            except nats.errors.NoRespondersError:
                if time.monotonic() > end_s:
                    raise
                await asyncio.sleep(_KNOWN_PAUSE_S)

    async def _ask(self, action: str, stream: str, body: dict[str, Any]) -> dict[str, Any]:
        data, client = json.dumps(body).encode(), self._link.client
        subject = f"{_API}.{action}.{stream}"
        answer = await self._named(stream, lambda: client.request(subject, data, timeout=_PIECE_S))
        return _checked(stream, answer.data)

    async def _named(self, stream: str, action: Callable[[], Awaitable[T]]) -> T:
        try:
            return await action()
        except Unreachable as error:
            raise BusUnavailable(f"{stream}: {reason(error)}") from error


def _checked(stream: str, data: bytes) -> dict[str, Any]:
    if data.startswith(b"-ERR"):
        raise BusUnavailable(f"{stream}: {data.decode(errors='replace')}")
    answer: dict[str, Any] = json.loads(data)
    if error := answer.get("error"):
        raise BusUnavailable(f"{stream}: {error.get('description')}")
    return answer
