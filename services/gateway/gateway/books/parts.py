"""Texts, sounds and results of books: in the broker's object store, or in a folder."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from ttscommon.bus import Bus
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import BOOK_PARTS

T = TypeVar("T")


class JobParts(Protocol):
    """Every method raises BusUnavailable where the store cannot do it now."""

    async def put(self, name: str, data: bytes) -> None: ...
    async def get(self, name: str) -> bytes | None: ...
    async def delete(self, name: str) -> None: ...


class StoredParts:
    """In the broker's object store, which is bounded, and forgets what is a month old."""

    def __init__(self, bus: Bus) -> None:
        self._objects = bus.objects

    async def put(self, name: str, data: bytes) -> None:
        await self._objects.put(BOOK_PARTS, name, data)

    async def get(self, name: str) -> bytes | None:
        return await self._objects.get(BOOK_PARTS, name)

    async def delete(self, name: str) -> None:
        await self._objects.delete(BOOK_PARTS, name)


class FolderParts:
    """In a folder that all gateways see."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, name: str, data: bytes) -> None:
        """Another reader sees all of it or nothing."""
        await self._do(name, lambda path: _write(path, data))

    async def get(self, name: str) -> bytes | None:
        try:
            return await self._do(name, Path.read_bytes)
        except FileNotFoundError:
            return None

    async def delete(self, name: str) -> None:
        await self._do(name, lambda path: path.unlink(missing_ok=True))

    async def _do(self, name: str, action: Callable[[Path], T]) -> T:
        try:
            return await asyncio.to_thread(action, self._folder / name)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise BusUnavailable(f"{self._folder}: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        passing.write_bytes(data)
        passing.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            passing.unlink()
        raise
