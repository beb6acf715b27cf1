"""Bars that show how far a book is, and lines of what became of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from antiphon.reading.casting import Plan
from antiphon.reading.folder import SpokenPortion, Wanted
from ttscommon.books import Book, Portion

_SHOWN: Final = 5


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

    def found(self, wanted: Wanted, spoken: SpokenPortion) -> None:
        """An earlier run spoke it."""
        self._count(wanted, spoken)

    def take(self, wanted: Wanted, spoken: SpokenPortion) -> None:
        """This run did."""
        self.made_s += _seconds(spoken)
        self._count(wanted, spoken)

    @property
    def pace(self) -> float:
        """Seconds of sound a second."""
        return self.made_s / max(time.monotonic() - self._began_s, 1e-3)

    def _count(self, wanted: Wanted, spoken: SpokenPortion) -> None:
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
