"""Keys that change while a gateway runs: their file is read again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from gateway.keys.ring import KeyRing, KeysError

_EVERY_S: Final = 1.0

log_ = structlog.get_logger(__name__)


class KeysWatch:
    """Reads the file of a key ring, and takes what is in it when that has changed.

    The bytes are compared, not times: a Secret's volume replaces links, and editors replace files.
    """

    def __init__(self, path: Path | None, keys: KeyRing, changed: Callable[[], None]) -> None:
        self._path, self._keys, self._changed = path, keys, changed
        self._seen: bytes | None = None

    async def run(self) -> None:
        """Until it is cancelled; without a file there is nothing to do."""
        while self._path is not None:
            await self.look(self._path)
            await asyncio.sleep(_EVERY_S)

    async def look(self, path: Path) -> None:
        """Take what is new. What cannot be used leaves the keys as they are."""
        try:
            found = await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            log_.warning("keys.unreadable", error=str(error))
            return
        if found == self._seen:
            return
        self._seen = found
        try:
            fresh = await asyncio.to_thread(_parsed, found)
        except KeysError as error:
            log_.error("keys.rejected", error=str(error))
            return
        if fresh.tenants != self._keys.tenants:
            log_.info("keys.changed", **_difference(self._keys, fresh))
            self._keys.take(fresh)
            self._changed()


def _parsed(data: bytes) -> KeyRing:
    try:
        return KeyRing.parse(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise KeysError("it is not UTF-8") from error


def _difference(old: KeyRing, new: KeyRing) -> dict[str, list[str]]:
    both = old.tenants.keys() & new.tenants.keys()
    return {
        "added": sorted(new.tenants.keys() - both),
        "revoked": sorted(old.tenants.keys() - both),
        "changed": sorted(name for name in both if old.tenants[name] != new.tenants[name]),
    }
