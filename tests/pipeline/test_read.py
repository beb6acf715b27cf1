"""`antiphon read` against a stack: a book with chapters, the same after it was interrupted."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import av
import pytest
from rich.console import Console

from antiphon.client import SpeechOptions
from antiphon.reading.folder import work_folder
from antiphon.reading.order import Labels, Order
from antiphon.reading.run import make_file, run, speak_book
from antiphon.stack import LocalStack
from tests.books import epub, png
from tests.in_process import services, url
from ttscommon.books import BookPauses, Cast


def order(folder: Path, url: str, **changes: Any) -> Order:
    folder.mkdir(exist_ok=True)
    source = folder / "book.epub"
    source.write_bytes(epub().read())
    fields: dict[str, Any] = {
        "source": source,
        "output": folder / "book.m4b",
        "format": "m4b",
        "options": SpeechOptions(seed=7),
        "cast": Cast({"Ann": "awb"}),
        "pauses": BookPauses(0.25, 1.0),
        "labels": Labels(),
        "own": None,
        "url": url,
    }
    return Order(**{**fields, **changes})


async def read(wanted: Order, console: Console) -> None:
    with work_folder(wanted.folder) as folder:
        make_file(wanted, await speak_book(wanted, folder, console), console)


def spoken(wanted: Order) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(wanted.folder.glob("*.pcm"))}


@pytest.fixture
async def gateway_url(broker: LocalStack) -> AsyncIterator[str]:
    async with services(broker.bus, {}, {}) as found:
        yield url(found)


async def test_a_book_is_whole_and_the_same_after_an_interruption(
    gateway_url: str, tmp_path: Path
) -> None:
    whole = order(tmp_path / "whole", gateway_url)
    broken = order(tmp_path / "broken", gateway_url, most=1)
    said = io.StringIO()
    console = Console(file=said, width=100)
    async with asyncio.timeout(120):
        await read(whole, console)
        running = asyncio.create_task(read(broken, console))
        while not list(broken.folder.glob("*.json")):
            await asyncio.sleep(0.005)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        before = spoken(broken)
        assert 0 < len(before) < len(spoken(whole))
        kept = {name: (broken.folder / name).stat().st_mtime_ns for name in before}
        await read(broken, console)
        assert {name: (broken.folder / name).stat().st_mtime_ns for name in before} == kept
        assert spoken(broken) == spoken(whole)
        await asyncio.to_thread(run, broken, console)
    assert not broken.folder.exists()
    assert "3 chapters" in said.getvalue()
    assert broken.output.read_bytes() == whole.output.read_bytes()
    check_file(whole.output)


def check_file(path: Path) -> None:
    with av.open(str(path)) as file:
        chapters = file.chapters()
        assert [one["metadata"]["title"] for one in chapters] == [
            *("The first chapter", "Later", "The second chapter")
        ]
        assert (file.metadata["title"], file.metadata["artist"]) == (
            *("The Lamps & the Tide", "Ann Wright"),
        )
        assert "trainedAlgorithmicMedia" in file.metadata["comment"]
        assert bytes(next(file.demux(video=0))) == png()
        assert file.duration is not None
        end_s = chapters[-1]["end"] * float(chapters[-1]["time_base"] or 0)
        assert file.duration / 1e6 == pytest.approx(end_s, abs=0.1)
