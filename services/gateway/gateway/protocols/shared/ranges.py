"""A stored sound as a response: all of it, or the range of bytes that a client asks for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple

from fastapi import Request
from fastapi.responses import StreamingResponse

from gateway.audio.lossless import unpacked
from gateway.books import JobParts, JobResult
from ttscommon.wire.errors import LogGone

_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class ByteRange(NamedTuple):
    """From `start` to before `stop`."""

    start: int
    stop: int


def range_of(header: str | None, size: int) -> ByteRange | None:
    """What a Range header asks for (RFC 9110, section 14.2); None for all of it.

    One range is understood; several, and other units, mean all. An empty range cannot be given.
    """
    found = _RANGE.fullmatch((header or "").strip())
    if found is None or found.group(1, 2) == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        return ByteRange(max(0, size - int(last)), size)
    start, stop = int(first), int(last) + 1 if last else size
    if last and stop <= start:
        return None  # such a header is to be ignored
    return ByteRange(start, min(stop, size))


class RangedSound(StreamingResponse):
    """Reads a part of the result at a time, as the client takes it."""

    def __init__(
        self, parts: JobParts, result: JobResult, headers: Mapping[str, str], request: Request
    ) -> None:
        self._parts, self._result = parts, result
        wanted = None if _changed(request, headers["etag"]) else request.headers.get("range")
        asked = range_of(wanted, result.size)
        at = asked or ByteRange(0, result.size)
        empty = asked is not None and at.start >= at.stop
        fields = dict(headers) | {"accept-ranges": "bytes"}
        if asked is not None:
            span = "*" if empty else f"{at.start}-{at.stop - 1}"
            fields["content-range"] = f"bytes {span}/{result.size}"
        fields["content-length"] = "0" if empty else str(at.stop - at.start)
        status = 200 if asked is None else 416 if empty else 206
        wants_none = empty or request.method == "HEAD"
        super().__init__(() if wants_none else self._bytes(at), status, fields)

    async def _bytes(self, wanted: ByteRange) -> AsyncIterator[bytes]:
        """Raises LogGone where the store has lost a part: then bytes are missing."""
        if head := self._result.head[wanted.start : wanted.stop]:
            yield head
        at = len(self._result.head)
        for part in self._result.parts:
            start, stop = max(wanted.start - at, 0), min(wanted.stop - at, part.size)
            at += part.size
            if start < stop:
                yield (await self._part(part.name))[start:stop]

    async def _part(self, name: str) -> bytes:
        data = await self._parts.get(name)
        if data is None:
            raise LogGone("the store has lost a part of the sound")
        if not self._result.packed:
            return data
        pcm = await asyncio.to_thread(unpacked, data)
        return pcm.astype("<i2", copy=False).tobytes()


def _changed(request: Request, etag: str) -> bool:
    """A client that has a part of something else wants all of this."""
    given = request.headers.get("if-range")
    return given is not None and given != etag
