"""Backups of what a broker keeps permanently: voices, their recordings, what was derived of them.

A backup is a folder: one packed stream in a file each, and `manifest.json`, which is written last.
Logs, jobs and leases live for minutes and are in none.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ttscommon.bus.layout import SCHEMA, kept_streams
from ttscommon.bus.link import Link
from ttscommon.bus.setup import Setup
from ttscommon.bus.snapshots import Snapshots, StreamSnapshot
from ttscommon.process.settings import BusSettings
from ttscommon.wire.errors import AntiphonError

MANIFEST: Final = "manifest.json"
_PARTIAL: Final = ".partial"
_NAMED: Final = "%Y-%m-%dT%H-%M-%SZ"


class BackupUnusable(AntiphonError):
    """A backup cannot be made or restored; the text says why."""

    code = "bad_request"


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
        made_of, snapshots = (
            manifest["prefix"],
            [StreamSnapshot(**one) for one in manifest["streams"]],
        )
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
    return sorted(path.parent for path in folder.glob(f"*/{MANIFEST}") if not _partial(path))


def _partial(manifest: Path) -> bool:
    return manifest.parent.suffix == _PARTIAL


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
