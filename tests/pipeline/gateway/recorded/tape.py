"""Sessions as text: what a client sent and received, byte for byte, but for what differs each time.

Ids are numbered in the order of their first appearance, measured times become `<s>`, and audio its
length and a hash. `ANTIPHON_RECORD=1` writes the recordings anew instead of comparing them.
"""

import asyncio
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

FOLDER: Final = Path(__file__).parent
PCM: Final = "<pcm>"
_LIMIT_S: Final = 15.0
_ID: Final = re.compile(r"(?<![\w.-])[\w-]{22}(?![\w.-])")
_NAMED: Final = re.compile(r'("(?:session_id|resume_token)":|x-resume-token: )("?)[\w.-]+')
_BASE64: Final = re.compile(r'"([A-Za-z0-9+/=]{64,})"')
_TIMES: Final = re.compile(
    r'("(?:ttfp_s|min_slack_s|underruns|underrun_s|retry_after_s|queue_s|wait_s|work_s)":)[\d.e-]+'
    # A position that the client named itself is kept.
    r'|("played_s":)(?!0\.0[12][,}])[\d.e-]+'
)
_STAGES: Final = re.compile(r'("stages":)\{[^}]*\}')
_TIMED_HEADERS: Final = re.compile(r"((?:[Dd]ate|server-timing|retry-after): )[^\r\n]*")


class Tape:
    """One recording: `title` begins a session in it, `compare` ends it."""

    def __init__(self, name: str) -> None:
        self._path = FOLDER / f"{name}.txt"
        self._lines: list[str] = []
        self._ids: dict[str, str] = {}

    def title(self, name: str) -> None:
        self._lines += ["", f"# {name}"] if self._lines else [f"# {name}"]
        self._ids.clear()

    def sent(self, data: str | bytes) -> None:
        self._lines.append(f"> {self._alike(data)}")

    def received(self, data: str | bytes) -> None:
        self._lines.append(f"< {self._alike(data)}")

    def note(self, line: str) -> None:
        self._lines.append(f"= {line}")

    def compare(self) -> None:
        """Hold what was taped against the recording."""
        text = "\n".join(self._lines) + "\n"
        if os.environ.get("ANTIPHON_RECORD"):
            self._path.write_text(text, "utf-8")
        recorded = self._path.read_text("utf-8")
        different = unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "now", n=1)
        assert text == recorded, "\n".join(different)

    def _alike(self, data: str | bytes) -> str:
        if isinstance(data, bytes):
            return _hashed(data)
        data = _BASE64.sub(lambda found: f'"{_hashed(found[1].encode())}"', data)
        data = _NAMED.sub(r"\1\2<token>", data)
        data = _STAGES.sub(r"\1<stages>", data)
        data = _TIMES.sub(lambda found: f"{found[1] or found[2]}<s>", data)
        data = _TIMED_HEADERS.sub(r"\1<s>", data)
        data = data.replace('"busy":true', '"busy":false')  # as the machine of the test may be
        return _ID.sub(lambda found: self._numbered(found[0]), data)

    def _numbered(self, name: str) -> str:
        return self._ids.setdefault(name, f"<id {len(self._ids) + 1}>")


def _hashed(data: bytes) -> str:
    return f"<{len(data)} bytes {hashlib.sha256(data).hexdigest()[:12]}>"


class Wire:
    """A socket with a tape in it."""

    def __init__(self, tape: Tape, socket: ClientConnection) -> None:
        self._tape = tape
        self.socket = socket

    async def say(self, message: str | bytes | None = None, /, **fields: Any) -> None:
        data = json.dumps(fields) if message is None else message
        self._tape.sent(data)
        await self.socket.send(data)

    async def until(self, *marks: str) -> str | bytes:
        """Hear up to the first frame with one of `marks` in it; PCM: up to a binary one."""
        while True:
            async with asyncio.timeout(_LIMIT_S):
                frame = await self.socket.recv()
            self._tape.received(frame)
            if PCM in marks if isinstance(frame, bytes) else any(mark in frame for mark in marks):
                return frame

    async def closed(self) -> None:
        """Hear everything up to the end of the connection."""
        try:
            await self.until("no frame has this in it")
        except ConnectionClosed:
            self._tape.note(f"closed with {self.socket.close_code}")


@asynccontextmanager
async def wired(tape: Tape, url: str) -> AsyncIterator[Wire]:
    async with connect(url.replace("http", "ws", 1)) as socket:
        yield Wire(tape, socket)


async def denied(tape: Tape, url: str) -> None:
    """A handshake that is answered with a status."""
    try:
        async with connect(url.replace("http", "ws", 1)):
            tape.note("accepted")
    except InvalidStatus as refused:
        answer = refused.response
        tape.note(f"status {answer.status_code}")
        for name, value in answer.headers.raw_items():
            tape.received(f"{name}: {value}")
        tape.received((answer.body or b"").decode())


async def ask(
    tape: Tape, base: str, method: str, path: str, body: Any = None, **headers: str
) -> str:
    """A request over HTTP and every byte of its answer, a line for each chunk; returns the head."""
    host, _, port = base.removeprefix("http://").partition(":")
    data = b"" if body is None else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(host, int(port))
    sent = {"content-type": "application/json", "content-length": str(len(data)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in sent.items()]
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n"
    writer.write((head + "".join(lines) + "\r\n").encode() + data)
    tape.sent(f"{method} {path} {data.decode()}")
    async with asyncio.timeout(_LIMIT_S):
        answer = await reader.read()
    writer.close()
    start, _, rest = answer.partition(b"\r\n\r\n")
    for line in start.decode("latin-1").split("\r\n"):
        tape.received(line)
    chunked = b"transfer-encoding: chunked" in start
    for chunk in _chunks(rest) if chunked else [rest]:
        _tape_body(tape, chunk)
    if chunked and not rest.endswith(b"0\r\n\r\n"):
        tape.note("cut")
    return start.decode("latin-1")


def _chunks(rest: bytes) -> list[bytes]:
    found = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        found.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return found


def _tape_body(tape: Tape, chunk: bytes) -> None:
    text = chunk.decode("utf-8", "replace")
    if not text.replace("\n", "").isprintable() or "\ufffd" in text:
        tape.received(chunk)
        return
    for line in text.split("\n"):
        tape.received(line)


Script = Callable[[Any], Awaitable[None]]


class Play:
    """What the stage does with a text, by its first word.

    `go` lets those go on that wait; `over` is set when one that held on has said everything.
    """

    def __init__(self, recite: Script) -> None:
        self.go = asyncio.Event()
        self.over = asyncio.Event()
        self._recite = recite

    async def __call__(self, performance: Any) -> None:
        match first := performance.job.request.text.split()[0]:
            case "hold" | "still":
                # What is sounded again has no words, and whether it is depends on the moment.
                timed = first == "hold"
                await performance.say("first half", timed)
                await self.go.wait()
                await performance.say("second half", timed)
                await performance.end()
                self.over.set()
            case "fail":
                await performance.say("first half", True)
                await performance.end("error", "internal", "out of notes")
            case "refuse":
                await performance.end("error", "unavailable", "not now")
            case "wait":
                await self.go.wait()
                await self._recite(performance)
            case _:
                await self._recite(performance)
