"""Books of strangers, read in a process of its own that has so much time and memory.

A parser may not finish some texts, and holds the interpreter's lock meanwhile.
"""

from __future__ import annotations

import asyncio
import io
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import structlog

from ttscommon.books.book import BookPauses, InvalidBook, Portion, portions
from ttscommon.books.reading import BookKind, read_book
from ttscommon.wire.errors import Overloaded

MOST_PORTIONS: Final = 50_000
MOST_PAUSE_S: Final = 12 * 3600.0
"""Of silence between portions, all together."""
# Fifteen million characters of Markdown take less of both.
_PROCESSOR_S: Final = 30
_MEMORY_BYTES: Final = 1 << 30
# On a machine that is busy with listeners.
_LONGEST_S: Final = 120.0
_AGAIN_S: Final = 30.0
_LENGTH_BYTES: Final = 4
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
_TOO_MUCH: Final = "the book takes too long, or too much memory, to be read: is it damaged?"

log_ = structlog.get_logger(__name__)


class ReadOrder(msgspec.Struct, frozen=True):
    """What a book is, and how it is to be spoken; see `read_book` and `BookPauses`."""

    kind: BookKind
    speakers: tuple[str, ...] = ()
    title: str = ""
    pauses: BookPauses = BookPauses()


class ReadBook(msgspec.Struct, frozen=True):
    """A book in portions. chapters: their titles. error: why it could not be read, or empty."""

    title: str = ""
    author: str = ""
    language: str = ""
    characters: int = 0
    chapters: tuple[str, ...] = ()
    portions: list[Portion] = []
    error: str = ""


_answers: Final = msgspec.msgpack.Decoder(ReadBook)


async def read_apart(order: ReadOrder, data: bytes) -> ReadBook:
    """Raises InvalidBook, Overloaded. A caller that is cancelled ends the process."""
    given = msgspec.msgpack.encode(order)
    command = (sys.executable, "-P", "-m", "ttscommon.books")
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_environment(),
    )
    try:
        async with asyncio.timeout(_LONGEST_S):
            told, _ = await process.communicate(len(given).to_bytes(_LENGTH_BYTES) + given + data)
    except TimeoutError:
        raise Overloaded("the machine is too busy to read a book", retry_after_s=_AGAIN_S) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _answer(told, process.returncode)


def _answer(told: bytes, status: int | None) -> ReadBook:
    if status:
        log_.warning("book.reader_died", status=status)
        raise InvalidBook(_TOO_MUCH)
    answer = _answers.decode(told)
    if answer.error:
        raise InvalidBook(answer.error)
    return answer


def _environment() -> dict[str, str]:
    """Without secrets, of which services have some here."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    return kept | {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    """The process: reads one order and its book, and tells what is in it."""
    _bound()
    order = msgspec.msgpack.decode(
        source.read(int.from_bytes(source.read(_LENGTH_BYTES))), type=ReadOrder
    )
    try:
        answer = read(order, source.read())
    except InvalidBook as error:
        answer = ReadBook(error=error.message)
    except (RecursionError, MemoryError):
        answer = ReadBook(error=_TOO_MUCH)
    answers.write(msgspec.msgpack.encode(answer))


def read(order: ReadOrder, data: bytes) -> ReadBook:
    """Raises InvalidBook, also for more than a job has room for."""
    book = read_book(io.BytesIO(data), order.kind, speakers=order.speakers, title=order.title)
    found, paused_s = [], 0.0
    for one in portions(book, order.pauses):
        found.append(one)
        paused_s += one.pause_s
        if len(found) > MOST_PORTIONS:
            raise InvalidBook(f"the book has over {MOST_PORTIONS} paragraphs: read it in parts")
        if paused_s > MOST_PAUSE_S:
            told = f"the pauses come to more than {MOST_PAUSE_S / 3600:.0f} hours"
            raise InvalidBook(f"{told}: make them shorter, or read the book in parts")
    titles = tuple(chapter.title for chapter in book.chapters)
    return ReadBook(book.title, book.author, book.language, book.characters, titles, found)


def _bound() -> None:
    """Give way to those who listen, and end rather than take what they need."""
    os.nice(5)
    for kind, most in (
        (resource.RLIMIT_CPU, _PROCESSOR_S),
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):  # where a system has none, or a lower one
            resource.setrlimit(kind, (most, most))
    with suppress(OSError):  # Linux: should memory run out, this is the process to end
        Path("/proc/self/oom_score_adj").write_text("1000")
