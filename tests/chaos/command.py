"""What the programs do alike: options, a folder for a stack, fake engines, reports, tables."""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

ROOT: Final = Path(__file__).resolve().parents[2]
RATE_HZ: Final = 16_000
# Of a stack that lets everybody in.
OPEN_DOOR: Final = {"ANTIPHON_ADMISSION": "off"}
# The packages of a checkout that a stack runs.
_PARTS: Final = ("libs/ttscommon", "services/gateway", "services/talker", "services/vocoder", "cli")


def options(name: str, about: str | None, *, out: bool = False) -> argparse.ArgumentParser:
    """A program's; `out`: it writes a report."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.chaos {name}", description=about)
    if out:
        parser.add_argument("--out", type=Path, default=Path(f"build/{name}.json"))
    return parser


def in_folder(measure: Callable[[Path], Coroutine[Any, Any, T]]) -> T:
    """What `measure` finds out with a folder for its stack, which goes with it."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        return asyncio.run(measure(Path(folder)))


def write(path: Path, found: object) -> None:
    """A report, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of which all but the first column are figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def of_checkout(tree: Path) -> dict[str, str]:
    """The environment of a process that measures another checkout with the programs of this."""
    path = os.pathsep.join([*(str(tree / part) for part in _PARTS), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path}


def fake(
    folder: Path, curves: Mapping[str, Mapping[str, float] | None], **settings: str
) -> dict[str, dict[str, str]]:
    """By stage, the settings of fake engines with these step times; None: with their own."""
    found = {}
    for stage, curve in curves.items():
        found[stage] = dict(settings)
        if curve is not None:
            path = folder / f"{stage}-curve.json"
            path.write_text(json.dumps(curve))
            found[stage]["ANTIPHON_FAKE_CURVE"] = str(path)
    return found


async def post(
    url: str, text: str, limit: int = 1 << 16
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask for a speech as PCM by as little code as will do: it shares the machine."""
    body = json.dumps({"input": text, "response_format": "pcm", "sample_rate": RATE_HZ}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port, limit=limit)
    head = (
        "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    return reader, writer
