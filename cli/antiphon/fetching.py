"""Progress of a model that is downloaded and made ready; the hub's client shows its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ttsfamilies.published import Telling


@contextmanager
def telling(name: str, console: Console) -> Iterator[Telling]:
    """Lines of a model, and a bar while its pickles are converted."""
    columns = (TextColumn(f"{name}: converting"), BarColumn(), DownloadColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", visible=False)

        def say(line: str) -> None:
            bar.console.print(f"{name}: {line}", style="dim", markup=False, soft_wrap=True)

        def shown(done: int, whole: int) -> None:
            bar.update(task, completed=done, total=whole, visible=done < whole)

        yield Telling(say, shown)
