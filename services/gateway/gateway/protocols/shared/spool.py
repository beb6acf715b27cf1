"""A body that is sent when it is whole: memory holds its beginning, a temporary file the rest."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

# 22 s of PCM at 24 kHz: most bodies never see a disk.
IN_MEMORY_BYTES: Final = 1 << 20
_PART_BYTES: Final = 1 << 18


class Spool:
    """A context manager: what was added is gone when it is left. Raises OSError for a full disk."""

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self._in_memory_bytes = in_memory_bytes
        # It is closed where the context is left.
        self._file = tempfile.SpooledTemporaryFile(in_memory_bytes)  # noqa: SIM115
        self._bytes = 0

    def __len__(self) -> int:
        return self._bytes

    @property
    def on_disk(self) -> bool:
        return self._bytes > self._in_memory_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    async def add(self, data: bytes) -> None:
        """Append `data`; a disk does not hold up the loop."""
        self._bytes += len(data)
        if self.on_disk:
            await asyncio.to_thread(self._file.write, data)
        else:
            self._file.write(data)

    async def parts(self) -> AsyncIterator[bytes]:
        """Everything, in parts of a quarter of a MiB."""
        self._file.seek(0)
        while part := await self._read():
            yield part

    async def _read(self) -> bytes:
        if self.on_disk:
            return await asyncio.to_thread(self._file.read, _PART_BYTES)
        return self._file.read(_PART_BYTES)
