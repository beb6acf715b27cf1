"""`python -m tests.chaos cold`: from nothing to first sound, by part.

Starts a stack of one gateway, one talker and one vocoder, asks for a sentence as soon as it takes
work, and prints medians. Each process tells its own parts in its log (`service.started`).
"""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import httpx
from rich.console import Console
from rich.table import Table

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.voices import default_voice
from tests.chaos.command import options

_TEXT: Final = "The tide is coming in."
_STARTED: Final = "service.started"
_TOTAL: Final = "total_s"
_ORDER: Final = ("import_s", "load_s", "record_s", "warm_up_s", "bus_s", "other_s", _TOTAL)


@dataclass
class ColdStart:
    """Seconds: of each stage's parts, of the stack until it was ready, of the first request."""

    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    ready_s: float = 0.0
    first_sound_s: float = 0.0

    def hear(self, name: str, line: str) -> None:
        """Take the parts out of a process's log."""
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == _STARTED:
            seconds = {key: value for key, value in event.items() if key.endswith("_s")}
            self.parts[event["stage"]] = seconds


async def start_once(config: StackConfig) -> ColdStart:
    """Start a stack, hear the beginning of one request and stop it again."""
    found, began_s = ColdStart(), time.perf_counter()
    async with LocalStack(config, found.hear) as stack, httpx.AsyncClient(timeout=60) as client:
        found.ready_s = time.perf_counter() - began_s
        body = {"input": _TEXT, "response_format": "pcm"}
        async with client.stream("POST", f"{stack.url}/v1/audio/speech", json=body) as response:
            response.raise_for_status()
            async for _ in response.aiter_raw():
                break
        found.first_sound_s = time.perf_counter() - began_s - found.ready_s
    return found


def medians(starts: Sequence[ColdStart]) -> Mapping[str, Mapping[str, float]]:
    """Of each stage's parts, and of the stack's."""
    values: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for start in starts:
        own = {"ready_s": start.ready_s, "first_sound_s": start.first_sound_s}
        for name, parts in {**start.parts, "stack": own}.items():
            for part, seconds in parts.items():
                values[name][part].append(seconds)
    return {
        name: {part: round(median(seconds), 3) for part, seconds in parts.items()}
        for name, parts in values.items()
    }


def table(found: Mapping[str, Mapping[str, float]]) -> Table:
    """A row for each stage."""
    made = Table("", *(part.removesuffix("_s") for part in _ORDER), title="seconds, medians")
    for name in sorted(found.keys() - {"stack"}):
        made.add_row(name, *(_shown(found[name].get(part)) for part in _ORDER))
    return made


def _shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"


def main() -> None:
    parser = options("cold", __doc__)
    parser.add_argument("--runs", type=int, default=3, help="starts to take the median of")
    parser.add_argument("--engine", choices=("torch", "fake"), default="torch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--voice-dir", type=Path, default=default_voice())
    parser.add_argument("--pair", action="store_true", help="both stages in one process")
    told = vars(parser.parse_args())
    runs = told.pop("runs")
    config = StackConfig(port=0, **told)
    found = medians([asyncio.run(start_once(config)) for _ in range(runs)])
    stack = found["stack"]
    console = Console()
    console.print(table(found))
    console.print(
        f"ready after {stack['ready_s']:.2f} s, then first sound after"
        f" {1e3 * stack['first_sound_s']:.0f} ms"
    )
