"""Incidents that only listeners cause, and what their pages say to do about them.

`make test-deploy` runs them.
"""

import asyncio
import json
import os
import signal
import statistics
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.child import Child
from tests.chaos.listener import Heard, judge
from tests.chaos.stack import chaos_stack
from tests.deploy.engine import deployed
from tests.deploy.loads import hold_back
from tests.deploy.test_incidents import page, until
from tests.deploy.test_upgrade import originals, speaking
from tests.pipeline.test_metrics import Exported
from ttscommon.bus import Bus

pytestmark = deployed

# What the alert compares with a quarter of the stage.
SLOW: Final = 2.0
STEPS: Final = 100
STREAMS: Final = 32
MIB: Final = 1 << 20
# As the runbook has it.
MOST_MIB: Final = 2.5
# Half of what waits for a listener who reads nothing.
HELD_BYTES: Final = MIB // 2
LONG_TEXT: Final = "And then the story went on for a while, as stories do. " * 60


async def scraped(stack: LocalStack, name: str) -> Exported:
    port = stack.children[name].ports["admin"]
    async with httpx.AsyncClient(timeout=10) as client:
        return Exported((await client.get(f"http://127.0.0.1:{port}/metrics")).text)


Steps = Mapping[str, tuple[float, float]]


async def steps(stack: LocalStack) -> Steps:
    """Seconds and number of the steps of each talker."""
    name = "tts_stage_duration_seconds"
    found = {one: await scraped(stack, one) for one in stack.children if one.startswith("talker")}
    return {
        one: (shown(f"{name}_sum", stage="talker"), shown(f"{name}_count", stage="talker"))
        for one, shown in found.items()
    }


async def slow_ones(stack: LocalStack) -> list[str]:
    """The talkers that the alert would name, by the next hundred steps of each."""
    before = await steps(stack)

    async def enough() -> bool:
        now = await steps(stack)
        return all(now[one][1] - before[one][1] >= STEPS for one in before)

    await until(enough)
    now = await steps(stack)
    mean = {one: (now[one][0] - s) / (now[one][1] - count) for one, (s, count) in before.items()}
    quartile = statistics.quantiles(mean.values(), n=4, method="inclusive")[0]
    print({one: f"{1e3 * seconds:.1f} ms" for one, seconds in mean.items()})
    return [one for one, seconds in mean.items() if seconds > SLOW * quartile]


async def test_one_slow_talker_is_named_and_deleting_its_pod_costs_no_listener_a_sample(
    tmp_path: Path,
) -> None:
    async with chaos_stack(tmp_path, lambda name, line: None, talkers=3) as stack:
        bus = await Bus.connect(stack.bus, "judge")
        expected = await originals(stack, bus)
        over, heard = asyncio.Event(), list[Heard]()
        load = [asyncio.create_task(speaking(stack, over, heard, seed)) for seed in expected]
        throttled = asyncio.create_task(hold_back(stack.children["talker-2"].pid))
        assert await slow_ones(stack) == ["talker-2"]
        throttled.cancel()
        slow = stack.children["talker-2"]
        starts = slow.starts
        slow.kill()
        await restarted(slow, starts)
        assert await slow_ones(stack) == []
        over.set()
        await asyncio.gather(*load)
        verdict = await judge(bus, heard, expected)
        await bus.close()
    assert verdict.clean, verdict.notes
    for step in ("step time by worker", "throttled", "Delete the pod"):
        assert step in page("AntiphonWorkerSlow")


async def restarted(child: Child, starts: int) -> None:
    """The process is gone, and another one in its place."""

    async def again() -> bool:
        return child.starts > starts and child.ready.is_set()

    await until(again)


@asynccontextmanager
async def reading_nothing(stack: LocalStack, streams: int) -> AsyncIterator[None]:
    """So many listeners who ask for a long text and take nothing of it."""
    body = {"input": LONG_TEXT, "response_format": "pcm", "sample_rate": 48_000}
    async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
        request = client.build_request("POST", f"{stack.url}/v1/audio/speech", json=body)
        answers = await asyncio.gather(
            *(client.send(request, stream=True) for _ in range(streams)),
        )
        assert {answer.status_code for answer in answers} == {200}
        try:
            yield
        finally:
            await asyncio.gather(*(answer.aclose() for answer in answers), return_exceptions=True)


async def test_a_gateway_is_killed_for_slow_listeners_and_max_streams_bounds_them(
    tmp_path: Path,
) -> None:
    curve = tmp_path / "curve.json"
    curve.write_text(json.dumps({"base_s": 1e-4, "stream_s": 0.0, "prefill_s": 0.0}))
    engine = {"ANTIPHON_FAKE_CURVE": str(curve), "ANTIPHON_SLOTS": str(2 * STREAMS)}
    gateway = {"ANTIPHON_ADMISSION": "off", "ANTIPHON_MAX_STREAMS": str(STREAMS)}
    environ = {"talker": engine, "vocoder": engine, "gateway": gateway}
    config = StackConfig(port=0, engine="fake", environ=environ, store=tmp_path / "store")
    resident = "process_resident_memory_bytes"
    async with LocalStack(config) as stack:
        before = await scraped(stack, "gateway")
        async with reading_nothing(stack, STREAMS):

            async def grown() -> bool:
                now = await scraped(stack, "gateway")
                return now(resident) - before(resident) > STREAMS * HELD_BYTES

            await until(grown)
            during = await scraped(stack, "gateway")
            assert during("tts_active_streams", stage="gateway") == STREAMS
            most = STREAMS * MOST_MIB * MIB + 256 * MIB
            assert during(resident) - before(resident) < most
            async with httpx.AsyncClient(base_url=stack.url, timeout=30) as client:
                answer = await client.post("/v1/audio/speech", json={"input": "One more."})
            assert answer.status_code == 429  # so the figures of the page hold
            pid = stack.children["gateway"].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)  # as the kernel does at a pod's limit
            await restarted(stack.children["gateway"], 1)
        after = await scraped(stack, "gateway")
    started = "process_start_time_seconds"
    assert after(started) > before(started)
    assert after(resident) < during(resident)
    assert "OOMKilled" in page("AntiphonGatewayRestarted")
    assert "256 MiB, 2.5 MiB a stream" in page("AntiphonGatewayMemory")
