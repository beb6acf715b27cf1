"""A book's text as it is read, and its record on the bus: order, progress and owner."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, Literal, TypeAlias

import msgspec

from gateway.audio import AudioFormat, Provenance
from gateway.requests import RequestOptions
from ttscommon.books import InvalidBook, ReadBook, ReadOrder, read_apart
from ttscommon.wire.errors import Overloaded
from ttscommon.wire.structs import AsMessagePack
from ttscommon.wire.subjects import token

BookState: TypeAlias = Literal["queued", "running", "done", "failed", "removing"]
OVER: Final = ("done", "failed", "removing")


class BookOrder(msgspec.Struct, frozen=True):
    """How a book is to be spoken. called: the audio format, by the client's name for it.

    seed: what those of the portions are made of. provenance: what the sound says of its origin,
    whichever gateway encodes it.
    """

    model: str
    audio: AudioFormat
    called: str
    sample_rate: int
    seed: int
    speed: float = 1.0
    options: RequestOptions = msgspec.field(default_factory=RequestOptions)
    title: str = ""
    provenance: Provenance | None = None
    author: str = ""
    language: str = ""


class PortionText(msgspec.Struct, frozen=True, array_like=True):
    """What is spoken as one request, by which voice, and the silence behind it. heading: the title
    of the chapter that it begins, if that has one.
    """

    text: str
    voice: str
    pause_s: float
    chapter: int = 0
    heading: str = ""


class PortionMade(msgspec.Struct, frozen=True, array_like=True):
    """A portion whose sound is stored. epoch: of the gateway that stored it, part of its name."""

    samples: int
    epoch: int


class ResultPart(msgspec.Struct, frozen=True, array_like=True):
    """So many bytes of the result, which clients download."""

    name: str
    size: int


class JobResult(msgspec.Struct, frozen=True):
    """The finished sound. packed: its parts are losslessly compressed samples, which are unpacked
    for the client. head: bytes in front of the first part.
    """

    parts: tuple[ResultPart, ...]
    packed: bool = False
    head: bytes = b""

    @property
    def size(self) -> int:
        return len(self.head) + sum(part.size for part in self.parts)


class BookRecord(msgspec.Struct, AsMessagePack, frozen=True):
    """The state of one book. The revision of the record fences: a gateway that wrote it with an
    older one has lost the book.

    owner: the gateway that speaks it, if one does; epoch: counts its owners. beat: counts what an
    owner wrote. made: by portion. running: requests in work, when this was written. encoded: parts
    of the result that this epoch stored. spoken: characters of the portions that are made.
    """

    book_id: str
    tenant: str
    order: BookOrder
    portions: int
    characters: int
    created_unix_s: float
    state: BookState = "queued"
    owner: str = ""
    epoch: int = 0
    beat: int = 0
    made: dict[int, PortionMade] = {}
    running: tuple[str, ...] = ()
    encoded: int = 0
    spoken: int = 0
    samples: int = 0
    size: int = 0
    runaways: int = 0
    started_unix_s: float = 0.0
    ended_unix_s: float = 0.0
    expires_unix_s: float = 0.0
    code: str = ""
    message: str = ""

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def text_name(self) -> str:
        """Of its portions' text, in the store of parts."""
        return f"{self.book_id}.text"

    @property
    def result_name(self) -> str:
        return f"{self.book_id}.result"

    def portion_name(self, index: int, epoch: int) -> str:
        """Of a portion's sound. No two gateways write to the same name."""
        return f"{self.book_id}.{index}.{epoch}"

    def part_name(self, number: int, epoch: int) -> str:
        """Of a part of the encoded result."""
        return f"{self.book_id}.part.{number}.{epoch}"

    def request_id(self, index: int, attempt: int) -> str:
        """Of a portion's request."""
        return token(f"{self.book_id}-{self.epoch}-{index}-{attempt}")


def index_of(request_id: str) -> int:
    """The portion of a request; see BookRecord.request_id."""
    return int(request_id.rsplit("-", 2)[1])


# Processes at once, and texts of one key, that which is read included, each in memory.
_AT_ONCE: Final = 2
_MOST_GIVEN: Final = 8
_AGAIN_S: Final = 5.0


class BookReader:
    """Reads one text of a key at a time, and keys in the order of their coming."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._turns: dict[str, asyncio.Lock] = {}
        self._given: Counter[str] = Counter()

    @property
    def busy(self) -> bool:
        """A text is read, or waits."""
        return bool(self._given)

    async def read(self, tenant: str, order: ReadOrder, data: bytes) -> ReadBook:
        """Raises InvalidBook; Overloaded where the key has too many texts here already."""
        if not data.strip():
            raise InvalidBook("there is no text in the book")
        if self._given[tenant] >= _MOST_GIVEN:
            raise Overloaded("this key's texts wait to be read", retry_after_s=_AGAIN_S)
        self._given[tenant] += 1
        try:
            async with self._turns.setdefault(tenant, asyncio.Lock()), self._places:
                return await read_apart(order, data)
        finally:
            self._given[tenant] -= 1
            if not self._given[tenant]:
                del self._given[tenant], self._turns[tenant]
