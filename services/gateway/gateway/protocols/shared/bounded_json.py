"""JSON of any size, taken in slices: what is large is laid aside, and what is left is small.

A parser holds the event loop until it is done. Megabytes of brackets take it a tenth of a second,
megabytes of text some milliseconds. No request needs them but for a recording, which is one string.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from gateway.errors import InvalidJson, MessageTooBig
from ttscommon.wire.errors import BadRequest, TextTooLong
from ttscommon.wire.messages import MAX_TEXT_CHARS, MAX_TURNS

# As much as one client may keep the others waiting.
BUDGET_S: Final = 0.001
SLICE_BYTES: Final = 2 << 10
# Parsed at once in well under a millisecond, whatever is in it.
SMALL_BYTES: Final = 32 << 10

# A character is twelve bytes at most (two escapes).
_MOST_STRING: Final = 12 * MAX_TEXT_CHARS
_MOST_BYTES: Final = 3 * _MOST_STRING
_MOST_TOKENS: Final = 10_000
# A reference, the sound of every turn, and what is said to the model.
_MOST_RECORDINGS: Final = 2 + MAX_TURNS

_IN_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_RECORDING: Final = re.compile(rb'"(?:ref_audio|audio_sample|audio|speech)"\s{0,8}:\s{0,8}"$')
# Of a book, which is one string.
BOOK: Final = re.compile(rb'"input"\s{0,8}:\s{0,8}"$')
_LONGEST_NAME: Final = 64


class BoundedJson:
    """`feed` it everything, then `finish`; afterwards `small` is JSON with names for recordings."""

    def __init__(self, large: re.Pattern[bytes] = _RECORDING) -> None:
        """`large`: how strings begin that are laid aside."""
        self._large = large
        self._kept = bytearray()
        self._aside: bytearray | None = None
        self._recordings: dict[str, bytearray] = {}
        self._carried = b""
        self._tokens = 0
        self._in_string = False
        self._string_bytes = 0

    @property
    def small(self) -> bytes:
        return bytes(self._kept)

    def feed(self, data: bytes) -> None:
        """Take a slice; raises BadRequest, TextTooLong, MessageTooBig."""
        data, self._carried, at = self._carried + data, b"", 0
        while at < len(data):
            at = self._string(data, at) if self._in_string else self._structure(data, at)
        if len(self._kept) > _MOST_BYTES:
            raise MessageTooBig(f"the JSON is over {_MOST_BYTES} bytes besides recordings")

    def finish(self) -> None:
        """The JSON is complete."""
        self._kept += self._carried

    def restore(self, text: str) -> str:
        """The recording that `text` stands for, or `text`."""
        found = self._recordings.get(text)
        if found is None:
            return text
        if b"\\" in found:  # PHP escapes slashes
            found = found.replace(b"\\/", b"/")
        return found.decode("ascii", "replace")

    def spelt(self, text: str) -> str:
        """The same for a text, with its escapes; raises InvalidJson."""
        found = self._recordings.get(text)
        if found is None:
            return text
        try:
            return msgspec.json.decode(b'"' + found + b'"', type=str)
        except msgspec.DecodeError as error:
            raise InvalidJson("the body is not valid JSON") from error

    def _structure(self, data: bytes, at: int) -> int:
        """Up to the next string, which is entered."""
        quote = data.find(b'"', at)
        end = len(data) if quote < 0 else quote + 1
        part = data[at:end]
        self._kept += part
        self._tokens += sum(map(part.count, (b"[", b"{", b",", b":")))
        if self._tokens > _MOST_TOKENS:
            raise BadRequest(f"the JSON has more than {_MOST_TOKENS} values")
        if quote >= 0:
            self._enter()
        return end

    def _enter(self) -> None:
        self._in_string, self._string_bytes = True, 0
        if self._large.search(self._kept[-_LONGEST_NAME:]) is None:
            return
        if len(self._recordings) == _MOST_RECORDINGS:
            raise BadRequest("the JSON has too many recordings")
        name = f"recording-{secrets.token_hex(8)}"
        self._aside = self._recordings[name] = bytearray()
        self._kept += name.encode()

    def _string(self, data: bytes, at: int) -> int:
        """Up to the end of the string, which is left."""
        found = _IN_STRING.match(data, at)
        assert found is not None  # it matches nothing, at the least
        end = found.end()
        self._string_bytes += end - at
        if self._aside is not None:
            self._aside += data[at:end]
        elif self._string_bytes > _MOST_STRING:
            raise TextTooLong(f"no text may have more than {MAX_TEXT_CHARS} characters")
        else:
            self._kept += data[at:end]
        if data[end : end + 1] == b'"':
            self._in_string, self._aside = False, None
            self._kept += b'"'
            return end + 1
        self._carried = data[end:]  # half an escape
        return len(data)


class Json:
    """A body or a message, small enough to be parsed at once; `restore` gives recordings back."""

    def __init__(self, data: bytes, bounded: BoundedJson | None = None) -> None:
        self.data = data
        self._bounded = bounded

    def restore(self, text: str) -> str:
        return text if self._bounded is None else self._bounded.restore(text)

    def spelt(self, text: str) -> str:
        """See BoundedJson."""
        return text if self._bounded is None else self._bounded.spelt(text)


class Gathering:
    """A body that comes in chunks: whole while it is small, then fed to BoundedJson."""

    def __init__(self, large: re.Pattern[bytes] = _RECORDING) -> None:
        """`large`: see BoundedJson."""
        self._large = large
        self._whole = bytearray()
        self._bounded: BoundedJson | None = None
        self._pace = LoopBudget()

    async def add(self, chunk: bytes) -> None:
        """The loop goes round between slices; raises as `BoundedJson.feed`."""
        if self._bounded is None and len(self._whole) + len(chunk) <= SMALL_BYTES:
            self._whole += chunk
            return
        if self._bounded is None:
            self._bounded = BoundedJson(self._large)
            await self._feed_all(self._bounded, bytes(self._whole))
        await self._feed_all(self._bounded, chunk)

    def json(self) -> Json:
        """All of it has come."""
        if self._bounded is None:
            return Json(bytes(self._whole))
        self._bounded.finish()
        return Json(self._bounded.small, self._bounded)

    async def _feed_all(self, bounded: BoundedJson, data: bytes) -> None:
        for part in slices(data):
            bounded.feed(part)
            await self._pace.breathe()


async def parsed_json(data: bytes) -> Json:
    """What is whole already. Raises as `BoundedJson.feed`."""
    if len(data) <= SMALL_BYTES:
        return Json(data)
    gathering = Gathering()
    await gathering.add(data)
    return gathering.json()


def slices(data: bytes) -> Iterator[bytes]:
    """`data` in parts that a parser in Python takes well under a millisecond for."""
    return (data[start : start + SLICE_BYTES] for start in range(0, len(data), SLICE_BYTES))


class LoopBudget:
    """`breathe` after each slice: the loop goes round when the budget is used up."""

    def __init__(self) -> None:
        self._until_s = time.perf_counter() + BUDGET_S

    async def breathe(self) -> None:
        if time.perf_counter() > self._until_s:
            await asyncio.sleep(0)
            self._until_s = time.perf_counter() + BUDGET_S
