"""A supervised child starts, comes back, is told from one that hangs, and leaves nothing behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from antiphon.stack.child import Child, ChildFailed, Command, Ports, answers, until_silent
from tests.waits import TIMEOUT_S

READY = "from pathlib import Path; import sys, time; Path(sys.argv[1]).write_text('7');"


@dataclass
class Script:
    """A Python one-liner that is ready when it has written a port number into its file."""

    file: Path
    code: str
    name: str = "script"
    seen_ports: list[Ports] = field(default_factory=list)

    def command(self, ports: Ports) -> Command:
        self.seen_ports.append(ports)
        self.file.unlink(missing_ok=True)
        return Command((sys.executable, "-c", self.code, str(self.file)), {"OWN": "1"})

    def bound(self, pid: int) -> Ports | None:
        text = self.file.read_text() if self.file.exists() else ""
        return {"http": int(text)} if text else None


@asynccontextmanager
async def supervised(
    script: Script, on_line: Callable[[str, str], None] = lambda name, line: None
) -> AsyncIterator[tuple[Child, asyncio.Task[None]]]:
    child = Child(script, on_line)
    task = asyncio.create_task(child.supervise())
    try:
        yield child, task
    finally:
        await child.stop(5.0)
        await asyncio.gather(task, return_exceptions=True)


async def gone(pid: int) -> None:
    """Wait until no process has this id; a zombie that waits for its parent counts as gone."""
    async with asyncio.timeout(TIMEOUT_S):
        while Path(f"/proc/{pid}").exists():
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
            await asyncio.sleep(0.01)


async def test_a_killed_child_comes_back_with_the_ports_it_had_and_is_told(tmp_path: Path) -> None:
    script = Script(tmp_path / "port", READY + "time.sleep(60)")
    with capture_logs() as caught:
        async with supervised(script) as (child, _), asyncio.timeout(20):
            await child.ready.wait()
            first = child.pid
            child.kill()
            while child.pid in (first, None):
                await asyncio.sleep(0.01)
            await child.ready.wait()
    told = [(one["event"], one["child"]) for one in caught]
    assert told == [("child.died", "script"), ("child.ready", "script")]
    assert script.seen_ports == [{}, {"http": 7}]


async def test_a_child_that_never_becomes_ready_fails_with_its_last_words(tmp_path: Path) -> None:
    async with supervised(Script(tmp_path / "port", "print('no luck'); exit(3)")) as (_, task):
        with pytest.raises(ChildFailed) as failure:
            await asyncio.wait_for(task, 20)
    assert failure.value.status == 3
    assert failure.value.tail == ["no luck"] * 3


async def test_wrong_settings_are_hopeless_at_once(tmp_path: Path) -> None:
    async with supervised(Script(tmp_path / "port", "exit(2)")) as (child, task):
        with pytest.raises(ChildFailed):
            await asyncio.wait_for(task, 20)
    assert child.starts == 1


async def written(tmp_path: Path, code: str) -> list[tuple[str, str]]:
    """Lines of a child that ends with wrong settings."""
    lines: list[tuple[str, str]] = []
    script = Script(tmp_path / "port", f"{code}; exit(2)")
    async with supervised(script, lambda *line: lines.append(line)) as (_, task):
        await asyncio.gather(task, return_exceptions=True)
    return lines


async def test_a_line_over_the_limit_does_not_stop_the_log(tmp_path: Path) -> None:
    lines = await written(tmp_path, "print('x' * (3 << 20)); print('after')")
    assert lines[-1] == ("script", "after")


async def test_what_a_child_writes_arrives_line_by_line_and_our_settings_do_not_leak_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_URL", "http://elsewhere")
    code = (
        "import os, sys; print(os.environ.get('ANTIPHON_URL'), os.environ['OWN'], flush=True);"
        "print('err', file=sys.stderr)"
    )
    assert await written(tmp_path, code) == [("script", "None 1"), ("script", "err")]


async def test_a_child_that_ignores_sigterm_is_killed_with_its_own_children(
    tmp_path: Path,
) -> None:
    code = (
        "import signal, subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print(subprocess.Popen(['sleep', '60']).pid, flush=True);" + READY + "time.sleep(60)"
    )
    lines: list[str] = []
    script = Script(tmp_path / "port", code)
    async with supervised(script, lambda _, line: lines.append(line)) as (child, _):
        async with asyncio.timeout(10):
            await child.ready.wait()
        await child.stop(0.05)
    await gone(int(lines[0]))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ties children to us on Linux")
async def test_children_die_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_child import READY, Script
from antiphon.stack.child import Child
async def main():
    child = Child(Script(Path({str(tmp_path / "port")!r}), READY + "time.sleep(60)"), print)
    task = asyncio.create_task(child.supervise())
    await child.ready.wait()
    print(child.pid, flush=True)
    await task
asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        child = int(supervisor.stdout.readline())
        os.kill(child, 0)
        supervisor.send_signal(signal.SIGKILL)
    await gone(child)


@asynccontextmanager
async def served(answer: bytes, after_s: float = 0.0) -> AsyncIterator[int]:
    """A port where every connection is answered so, or only accepted."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(after_s)
        if answer:
            writer.write(answer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    for writer in writers:
        writer.transport.abort()
    server.close()
    await asyncio.gather(
        server.wait_closed(), *(w.wait_closed() for w in writers), return_exceptions=True
    )


async def test_what_is_slow_or_ill_answers_and_what_only_accepts_connections_does_not() -> None:
    async with served(b"HTTP/1.1 503 Service Unavailable\r\n\r\n", after_s=0.5) as port:
        assert await answers(port, 2.0)
    async with served(b"") as port:
        assert not await answers(port, 0.2)
    assert not await answers(port, 0.2)  # nor what is gone


async def test_silence_is_told_once_it_has_lasted() -> None:
    async with served(b"HTTP/1.1 200 OK\r\n\r\n") as port:
        watching = asyncio.create_task(until_silent(port, 0.5))
        done, _ = await asyncio.wait((watching,), timeout=2.5)
        assert not done
    began_s = time.monotonic()
    await asyncio.wait_for(watching, TIMEOUT_S)
    assert time.monotonic() - began_s >= 0.5
