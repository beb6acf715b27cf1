"""Two stages in one process: settings of both, one end, one health."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import antiphon
from antiphon import pair
from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.broker import BrokerProgram, Credentials
from antiphon.stack.child import Child
from talker.settings import TalkerSettings
from tests.waits import PATIENCE_S
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import Service
from ttscommon.process.settings import SettingsError


def test_what_both_know_goes_to_both_and_a_stage_s_own_comes_first() -> None:
    talking, vocoding = pair.load_settings(
        {
            "ANTIPHON_MODEL": "m",
            "ANTIPHON_SLOTS": "8",
            "ANTIPHON_VOCODER__SLOTS": "16",
            "ANTIPHON_KV_BLOCKS": "128",
            "ANTIPHON_BUS__URLS": "nats://a:1",
            "ANTIPHON_VOCODER__BUS__USER": "v",
            "HOME": "/root",
        }
    )
    assert (talking.model, vocoding.model) == ("m", "m")
    assert (talking.slots, vocoding.slots) == (8, 16)
    assert talking.kv_blocks == 128
    assert (talking.bus.urls, vocoding.bus.urls) == (("nats://a:1",),) * 2
    assert (talking.bus.user, vocoding.bus.user) == (None, "v")


@pytest.mark.parametrize("name", ["ANTIPHON_KV_BLOKS", "ANTIPHON_VOCODER__KV_BLOCKS"])
def test_a_setting_that_its_stage_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="no such setting"):
        pair.load_settings({name: "100"})


async def test_both_take_work_before_the_process_says_so_and_either_ends_both() -> None:
    whole = Service("pair", TalkerSettings())
    announced: list[str] = []
    merged = pair.Merged()
    stages = ("talker", "vocoder")
    building = pair.Building()
    halves = [pair.Half(whole, stage, announced.append, merged, building) for stage in stages]
    for half in halves:
        half.watch("engine", 60.0)
        half.ready_when("bus", lambda: False)
    problems = whole.ready().problems
    assert "talker bus" in problems
    assert "vocoder bus" in problems
    halves[1].announce()
    assert announced == ["vocoder"]
    halves[0].stop()
    assert whole.stopping.is_set()
    assert halves[1].stopping.is_set()


def samples(registry: CollectorRegistry) -> list[str]:
    """All lines but those of the process, whose processor time goes on."""
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith(("#", "process_"))]


def test_metrics_of_both_stages_are_one_page_without_a_series_twice() -> None:
    merged = pair.Merged()
    for stage in ("talker", "vocoder"):
        metrics = Metrics("m")
        metrics.slots.labels(stage).set(4)
        metrics.bus_up.labels().set(1)
        merged.registries.append(metrics.registry)
    registry = CollectorRegistry()
    registry.register(merged)
    lines = samples(registry)
    assert len(lines) == len({line.rsplit(" ", 1)[0] for line in lines})
    assert 'tts_slots{model="m",stage="talker"} 4.0' in lines
    assert 'tts_slots{model="m",stage="vocoder"} 4.0' in lines
    assert sum(line.startswith("tts_bus_up") for line in lines) == 1
    assert samples(registry) == lines


async def test_a_stage_that_fails_takes_the_other_along(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    async def forever(service: Service, settings: object) -> None:
        service.announce()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(service.name)

    async def fails(service: Service, settings: object) -> None:
        service.announce()
        raise RuntimeError("CUDA error")

    monkeypatch.setattr("talker.service.serve", fails)
    monkeypatch.setattr("vocoder.service.serve", forever)
    whole = Service("pair", TalkerSettings())
    with pytest.raises(ExceptionGroup):
        await pair.serve(whole, *pair.load_settings({}))
    assert ended == ["vocoder"]


async def test_stages_are_built_one_after_another_and_work_when_both_are_there() -> None:
    whole, merged, building = Service("pair", TalkerSettings()), pair.Merged(), pair.Building()
    seen: list[str] = []

    async def starts(stage: str) -> None:
        half = pair.Half(whole, stage, seen.append, merged, building)
        async with half.building():
            seen.append(f"{stage} builds")
            await asyncio.sleep(0)
            seen.append(f"{stage} is built")
        seen.append("works")

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as both:
        for stage in ("talker", "vocoder"):
            both.create_task(starts(stage))
    built = ["vocoder builds", "vocoder is built", "talker builds", "talker is built"]
    assert seen == [*built, "works", "works"]


def test_pairs_have_as_many_talkers_as_vocoders() -> None:
    with pytest.raises(ValueError, match="as many"):
        StackConfig(pair=True, talkers=2)


def test_the_stack_hands_a_stage_s_settings_to_its_half() -> None:
    environ = {"vocoder": {"ANTIPHON_SLOTS": "9"}, "gateway": {"ANTIPHON_PORT": "1"}}
    stack = LocalStack(StackConfig(pair=True, environ=environ))
    assert stack._of_stages() == {"ANTIPHON_VOCODER__SLOTS": "9"}


def test_further_gateways_take_free_ports(tmp_path: Path) -> None:
    stack = LocalStack(StackConfig(gateways=3, port=8000))
    broker = Child(BrokerProgram("broker", tmp_path, Credentials()), lambda name, line: None)
    broker.ports, stack.children["broker"] = {"nats": 4222}, broker
    gateways = [one for one in stack._services(tmp_path) if one.module == "gateway"]
    assert [one.name for one in gateways] == ["gateway", "gateway-2", "gateway-3"]
    assert [one.environ["ANTIPHON_PORT"] for one in gateways] == ["8000", "0", "0"]
    assert len({one.environ["ANTIPHON_RESUME_SECRET"] for one in gateways}) == 1


def test_no_other_module_of_the_command_line_knows_the_stages() -> None:
    for path in Path(antiphon.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in ("talker", "vocoder") for name in names):
                settings_alone = all(name.endswith(".settings") for name in names)
                assert path.name == "pair.py" or settings_alone
