"""Back to the last commit of the version before, and up again, under load: nothing is lost.

The old code is taken from git and runs on this environment's packages. `make test-deploy` runs it.
"""

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from antiphon.stack.child import Child, inherited
from antiphon.stack.local import ServiceProgram, bus_environ
from tests.chaos.listener import Heard, Original, judge, listen, logged_codes
from tests.chaos.stack import ChaosStack, chaos_stack
from tests.deploy.chart import ROOT
from tests.deploy.engine import deployed
from tests.deploy.installed import earlier
from ttscommon.bus import Bus
from ttscommon.process.startup import VERSION
from ttscommon.wire import subjects
from ttscommon.wire.replicas import Replica

pytestmark = deployed

ROOTS: Final = ("libs/ttscommon", "services/gateway", "services/talker", "services/vocoder")
# As the chart orders them.
ORDER: Final = ("vocoder", "talker", "gateway")
LISTENERS: Final = 6
_GRACE_S: Final = 40.0
# Beside listeners, on a machine that may have other work.
_START_S: Final = 240.0
_NUMBERS: Final = itertools.count(100)


def code_of(folder: Path) -> dict[str, str]:
    """What makes a process run the code below `folder`."""
    return {"PYTHONPATH": os.pathsep.join(str(folder / root) for root in ROOTS)}


async def migrate(stack: ChaosStack, environ: Mapping[str, str]) -> None:
    """As the chart's task does, in front of the services of each release."""
    command = [sys.executable, "-m", "ttscommon.bus", "migrate"]
    given = {**inherited(), **bus_environ(stack.bus), **environ}
    done = await asyncio.create_subprocess_exec(*command, env=given)
    assert await asyncio.wait_for(done.wait(), _START_S) == 0


async def exchange(stack: ChaosStack, stage: str, environ: Mapping[str, str]) -> None:
    """As a rolling update does: one process after another, each ready before the old one leaves."""
    for name in stack.names(stage):
        old = stack.children[name]
        fresh = f"{stage}-{next(_NUMBERS)}"
        was = old._program
        assert isinstance(was, ServiceProgram)
        program = replace(was, name=fresh, environ={**was.environ, **environ})
        child = Child(program, stack._on_line, stack.config.restarts)
        stack._spawn(child)
        await asyncio.wait_for(child.ready.wait(), _START_S)
        await old.stop(_GRACE_S)
        del stack.children[name]


async def speaking(stack: ChaosStack, over: asyncio.Event, heard: list[Heard], seed: int) -> None:
    while not over.is_set():
        heard.append(await listen(stack.url, seed))


async def reported(bus: Bus) -> AsyncIterator[str]:
    """What living workers say of their version; those of 0.1.0 say nothing."""
    newest = {entry.key: entry.value for entry in await bus.kv.entries(subjects.REPLICAS)}
    for value in newest.values():
        if value is not None and not (replica := Replica.decode(value)).draining:
            yield replica.version


async def originals(stack: ChaosStack, bus: Bus) -> dict[int, Original]:
    found = {}
    for seed in range(LISTENERS):
        heard = await listen(stack.url, seed)
        assert heard.outcome == "ok", heard.error
        codes = await logged_codes(bus, heard.request_id)
        found[seed] = Original(codes, heard.samples)
    return found


async def test_listeners_hear_everything_while_a_release_comes_and_goes(tmp_path: Path) -> None:
    lines: list[str] = []
    stack = chaos_stack(tmp_path, lambda name, line: lines.append(f"{name}: {line}"), gateways=2)
    old, new = code_of(earlier(tmp_path / "earlier", *ROOTS)), code_of(ROOT)
    async with stack:
        bus = await Bus.connect(stack.bus, "judge")
        expected = await originals(stack, bus)
        over, heard = asyncio.Event(), list[Heard]()
        load = [
            asyncio.create_task(speaking(stack, over, heard, seed)) for seed in range(LISTENERS)
        ]
        counts = {}
        for label, code in (("back", old), ("up", new)):
            await migrate(stack, code)
            for stage in ORDER:
                await exchange(stack, stage, code)
                counts[f"{label} {stage}"] = len(heard)
            versions = {v async for v in reported(bus)}
            assert versions == ({VERSION} if code is new else {""}), (label, versions)
        over.set()
        await asyncio.gather(*load)
        verdict = await judge(bus, heard, expected)
        await bus.close()
    print(counts, verdict)
    print("\n".join(lines[-50:]))
    assert verdict.clean, verdict.notes
    assert verdict.streams >= 3 * LISTENERS
