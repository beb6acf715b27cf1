"""One supervised process: started, watched, restarted with backoff, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from ttscommon.process.settings import PREFIX

_PERIOD_S: Final = 1.0
_ASK: Final = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
Ports = Mapping[str, int]

_POLL_S: Final = 0.02
_LINE_LIMIT_BYTES: Final = 1 << 20
_TAIL_LINES: Final = 20
_EXIT_USAGE: Final = 2
_STILLBIRTHS: Final = 3

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RestartPolicy:
    """Seconds: the first pause before a restart, which doubles up to the longest; a life of
    `stable_life_s` makes the next pause a first one again. `silent_s`: a gateway that answers
    nothing for so long is killed, and started anew.
    """

    first_backoff_s: float = 0.1
    longest_backoff_s: float = 5.0
    stable_life_s: float = 10.0
    silent_s: float = 6.0


@dataclass(frozen=True)
class Command:
    """What to execute; `environ` comes on top of the supervisor's own environment."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]


class Program(Protocol):
    """Something that can be run again and again at the same ports."""

    @property
    def name(self) -> str: ...

    def command(self, ports: Ports) -> Command:
        """Prepare a start; `ports` are those of the life before, empty at first."""
        ...

    def bound(self, pid: int) -> Ports | None:
        """The ports, once the process `pid` is ready to be used."""
        ...


class ChildFailed(Exception):
    """A child cannot be brought to life; `tail` is the last it said, `reason` why."""

    def __init__(self, name: str, status: int, tail: list[str]) -> None:
        super().__init__(f"{name} does not start (exit status {status})")
        self.name = name
        self.status = status
        self.tail = tail
        self.reason = reason_of(tail)


class Child:
    """Keeps `program` running until `stop`; every line it writes goes to `on_line`."""

    def __init__(
        self,
        program: Program,
        on_line: Callable[[str, str], None],
        restarts: RestartPolicy = RestartPolicy(),
        *,
        answers: bool = False,
    ) -> None:
        """`answers`: at its admin port, or it hangs."""
        self._restarts = restarts
        self._answers = answers
        self.name = program.name
        self.ports: Ports = {}
        self.starts = 0
        self.ready = asyncio.Event()
        self._program = program
        self._on_line = on_line
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._ever_ready = False

    @property
    def pid(self) -> int | None:
        """Process id of the current life."""
        alive = self._process is not None and self._process.returncode is None
        return self._process.pid if alive and self._process else None

    async def supervise(self) -> None:
        """Start and restart until `stop`; raises ChildFailed if it never becomes ready."""
        policy = self._restarts
        backoff_s = policy.first_backoff_s
        while not self._stopping.is_set():
            born = time.monotonic()
            status = await self._live_once()
            if self._stopping.is_set():
                return
            hopeless = status == _EXIT_USAGE or self.starts >= _STILLBIRTHS
            if not self._ever_ready and hopeless:
                raise ChildFailed(self.name, status, list(self._tail))
            if time.monotonic() - born > policy.stable_life_s:
                backoff_s = policy.first_backoff_s
            log_.warning("child.died", child=self.name, status=status, restart_in_s=backoff_s)
            with contextlib.suppress(TimeoutError):
                delay_s = backoff_s * random.uniform(0.8, 1.2)
                await asyncio.wait_for(self._stopping.wait(), delay_s)
            backoff_s = min(backoff_s * 2, policy.longest_backoff_s)

    async def stop(self, grace_s: float) -> None:
        """End it: SIGTERM, and SIGKILL for its whole group after `grace_s`."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace_s)
        self.kill()
        await process.wait()

    def kill(self) -> None:
        """SIGKILL to whatever is left of the current life, its own children included."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _live_once(self) -> int:
        command = self._program.command(self.ports)
        self.starts += 1
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            env={**inherited(), **command.environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=_LINE_LIMIT_BYTES,
            start_new_session=True,
            preexec_fn=_die_with(os.getpid()),
        )
        self._process = process
        if self._stopping.is_set():
            self.kill()
        assert process.stdout is not None
        tasks = [
            asyncio.create_task(self._read_lines(process.stdout)),
            asyncio.create_task(self._watch(process)),
        ]
        try:
            return await process.wait()
        finally:
            self.ready.clear()
            self.kill()
            tasks[1].cancel()
            await asyncio.wait(tasks, timeout=1.0)
            tasks[0].cancel()

    async def _read_lines(self, output: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await output.readline()
            except ValueError:
                self._on_line(self.name, "(a line too long to show)")
                continue
            if not line:
                return
            text = line.decode("utf-8", "replace").rstrip()
            self._tail.append(text)
            self._on_line(self.name, text)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Until it is ready, and then for a life that answers nothing any more."""
        await self._watch_for_ready(process)
        if self._answers and (port := self.ports.get("admin")) and process.returncode is None:
            await until_silent(port, self._restarts.silent_s)
            log_.error("child.hung", child=self.name, silent_s=self._restarts.silent_s)
            self.kill()

    async def _watch_for_ready(self, process: asyncio.subprocess.Process) -> None:
        while process.returncode is None:
            ports = self._program.bound(process.pid)
            if ports is not None:
                self.ports = ports
                if self._ever_ready:
                    log_.info("child.ready", child=self.name)
                self._ever_ready = True
                self.ready.set()
                return
            await asyncio.sleep(_POLL_S)


def inherited() -> dict[str, str]:
    """Our environment without settings: each service refuses those that are not its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def _die_with(supervisor: int) -> Callable[[], None] | None:
    """For the moment between fork and exec: have the kernel end the child with its supervisor."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def tie() -> None:
        set_parent_death_signal = 1
        prctl(set_parent_death_signal, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)

    return tie


async def until_silent(port: int, silent_s: float) -> None:
    """Return when nothing was answered for so long, whatever the answers said.

    A late answer is one: thousands of new connections at once hold a gateway up for seconds.
    """
    heard_s = time.monotonic()
    while True:
        if await answers(port, silent_s):
            heard_s = time.monotonic()
        elif time.monotonic() - heard_s >= silent_s:
            return
        await asyncio.sleep(_PERIOD_S)


async def answers(port: int, within_s: float) -> bool:
    """Whether anything comes back in time. A process that is stopped still accepts connections."""
    writer = None
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_ASK)
            return bool(await reader.read(1))
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


def reason_of(tail: Sequence[str]) -> str:
    """The error of its last event that has one, else its last line."""
    for line in reversed(tail):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("error"):
            return str(event["error"])
    return tail[-1] if tail else "it said nothing"
