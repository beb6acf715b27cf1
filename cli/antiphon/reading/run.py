"""One run of `antiphon read`: speak what is missing, then make the file of what is there."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from antiphon import texts
from antiphon.reading.folder import Layout, SpokenPortion, Wanted, WorkFolder, lay_out, work_folder
from antiphon.reading.order import Order, Plan, plan
from antiphon.reading.speaking import Server, Speaking
from antiphon.sinks import require_folders
from antiphon.stack import LocalStack
from antiphon.starting import compile_missing
from antiphon.up import LogView, log_through
from gateway.audio.chaptered import BookMetadata, book_file
from ttscommon.books import Book, Portion

_SHOWN: Final = 5
Spoken: TypeAlias = Sequence[tuple[Portion, SpokenPortion]]
Guard: TypeAlias = Callable[[Awaitable[Spoken]], Awaitable[Spoken]]


@dataclass(frozen=True)
class Reading:
    """A book, all of which is spoken. made_s: seconds of sound that this run added."""

    plan: Plan
    spoken: Spoken
    made_s: float


def run(order: Order, console: Console) -> None:
    """Raises what reading, speaking and writing raise; what is spoken until then is kept."""
    require_folders(order.output, order.srt, order.vtt)
    order.book()  # a book that cannot be read is refused before anything is started
    if order.restart:
        shutil.rmtree(order.folder, ignore_errors=True)
    with work_folder(order.folder) as folder:
        reading = asyncio.run(speak_book(order, folder, console))
        layout = make_file(order, reading, console)
        _conclude(order, reading, layout, console)
        if not order.keep:
            folder.remove()


async def speak_book(order: Order, folder: WorkFolder, console: Console) -> Reading:
    """Until every portion lies in the folder."""
    async with _server(order, console) as (url, while_up):
        said = await plan(order, url)
        console.print(introduction(said), highlight=False)
        with bars(console) as progress:
            bar = SpeakingBar(said, progress)
            spoken = await while_up(_speak(order, url, said, folder, bar))
    return Reading(said, spoken, bar.made_s)


async def _speak(
    order: Order, url: str, said: Plan, folder: WorkFolder, bar: SpeakingBar
) -> Spoken:
    there: dict[Wanted, SpokenPortion] = {}
    for wanted in said.wanted:
        if found := folder.find(wanted):
            there[wanted] = found
            bar.add(wanted, found, made=False)

    def take(wanted: Wanted, spoken: SpokenPortion) -> None:
        there[wanted] = spoken
        bar.add(wanted, spoken, made=True)

    speaking = Speaking(Server(url, order.key, order.most), folder, take)
    await speaking.run([wanted for wanted in said.wanted if wanted not in there])
    return [(portion, there[wanted]) for portion, wanted in said.portions]


@asynccontextmanager
async def _server(order: Order, console: Console) -> AsyncIterator[tuple[str, Guard]]:
    """The address of one that runs, or of this run's own; with it a guard that ends work when
    the own one cannot be kept alive.
    """
    if order.url is not None:
        yield order.url, _as_it_is
        return
    assert order.own is not None
    await asyncio.to_thread(compile_missing, order.own.engine, console)
    view = LogView(console, "error")
    log_through(view)
    stack = LocalStack(order.own, view.line)
    with console.status("starting a server of its own"):
        await stack.__aenter__()
    try:
        yield stack.url, lambda work: _while_kept(stack, work)
    finally:
        await stack.stop()


async def _as_it_is(work: Awaitable[Spoken]) -> Spoken:
    return await work


async def _while_kept(stack: LocalStack, work: Awaitable[Spoken]) -> Spoken:
    """Raises StackFailed."""
    working = asyncio.ensure_future(work)
    watching = asyncio.create_task(stack.wait())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            watching.result()
        return await working
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


def make_file(order: Order, reading: Reading, console: Console) -> Layout:
    """It appears under its name when it is whole."""
    layout = lay_out(reading.spoken)
    passing = order.output.with_name(f"{order.output.name}.part")
    try:
        _encode(order, reading.plan.book, layout, passing, console)
        passing.replace(order.output)
    finally:
        passing.unlink(missing_ok=True)
    texts.write(layout.words(), order.srt, texts.srt_blocks)
    texts.write(layout.words(), order.vtt, texts.vtt_blocks)
    return layout


def _encode(order: Order, book: Book, layout: Layout, path: Path, console: Console) -> None:
    chapters = tuple(layout.chapters(book))
    said = BookMetadata(
        *(book.title, book.author, book.language, book.cover, chapters), layout.origin
    )
    file = book_file(path, order.format, layout.sample_rate, said)
    with bars(console) as progress:
        task = progress.add_task("encoding", total=layout.samples, said=order.output.name)
        for track in layout.tracks:
            for block in track.blocks():
                file.write(block)
            progress.update(task, completed=track.end)
    file.close()


def _conclude(order: Order, reading: Reading, layout: Layout, console: Console) -> None:
    size = order.output.stat().st_size / 1e6
    made = f"{clock(layout.duration_s)}, {size_of(reading.plan.book)}, {size:.1f} MB"
    now = f"{clock(reading.made_s)} of it spoken now"
    console.print(f"[bold]{order.output}[/]  {made}; {now}", highlight=False, soft_wrap=True)
    if (order.srt or order.vtt) and not any(layout.words()):
        console.print("[yellow]this model does not time its words: the subtitles are empty[/]")
    for line in complaints(reading.spoken):
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


class SpeakingBar:
    """Counts characters, of portions that are said twice both."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.sound_s = 0.0
        self.made_s = 0.0
        self._times = Counter(wanted for _, wanted in plan.portions)
        self._began_s = time.monotonic()
        self._progress = progress
        total = sum(len(wanted.text) for _, wanted in plan.portions)
        self._task = progress.add_task("speaking", total=total, said="")

    @property
    def pace(self) -> float:
        """Seconds of sound a second."""
        return self.made_s / max(time.monotonic() - self._began_s, 1e-3)

    def add(self, wanted: Wanted, spoken: SpokenPortion, *, made: bool) -> None:
        """Whether this run has `made` it, or an earlier one."""
        self.made_s += _seconds(spoken) * made
        times = self._times[wanted]
        self.sound_s += times * _seconds(spoken)
        said = f"{clock(self.sound_s)} of sound, {self.pace:.1f} x real time"
        self._progress.update(self._task, advance=times * len(wanted.text), said=said)


@contextmanager
def bars(console: Console) -> Iterator[Progress]:
    """A terminal shows them while they grow; `said` is a field of every task."""
    columns = (
        TextColumn("[bold]{task.description:<9}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("[dim]{task.fields[said]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress


def introduction(plan: Plan) -> Text:
    """What is about to be spoken, and in which voices."""
    book = plan.book
    voices = dict.fromkeys(wanted.options.voice or "" for _, wanted in plan.portions)
    named = ", ".join(filter(None, voices))
    size = f"{size_of(book)}, {book.characters:,} characters"
    by = f" by {book.author}" if book.author else ""
    return Text.assemble((book.title, "bold"), by, (f"  {size}; {plan.model}: {named}", "dim"))


def size_of(book: Book) -> str:
    """How many chapters, in words."""
    count = len(book.chapters)
    return "1 chapter" if count == 1 else f"{count} chapters"


def complaints(spoken: Sequence[tuple[Portion, SpokenPortion]]) -> Iterator[str]:
    """What a person may want to hear again, or to mend in the text."""
    reasons = {
        "runaway": "the model lost its text (another --seed may help)",
        "silent": "nothing in it can be said by its voice",
    }
    for outcome, reason in reasons.items():
        found = [portion for portion, one in spoken if one.outcome == outcome]
        for portion in found[:_SHOWN]:
            yield f"chapter {portion.chapter + 1}, '{portion.text[:60]}': {reason}"
        if len(found) > _SHOWN:
            yield f"and {len(found) - _SHOWN} more: {reason}"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _seconds(spoken: SpokenPortion) -> float:
    return spoken.samples / spoken.sample_rate if spoken.sample_rate else 0.0
