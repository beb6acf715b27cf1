"""Two engines in one process: settings of both stages, edges beside it, one end, one page."""

import ast
import asyncio
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest

import antiphon
from antiphon import pair
from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.broker import BrokerProgram, Credentials
from antiphon.stack.child import Child
from talker.settings import TalkerSettings
from tests.waits import TIMEOUT_S
from ttscommon.process.admin import Merged
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import Service
from ttscommon.process.settings import SettingsError
from vocoder.settings import VocoderSettings


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


def lines(merged: Merged) -> list[str]:
    """The page but for lines of the process, whose processor time goes on; no series is twice."""
    registry = CollectorRegistry()
    registry.register(merged)
    told = generate_latest(registry).decode().splitlines()
    found = [line for line in told if not line.startswith(("#", "process_"))]
    assert len(found) == len({line.rsplit(" ", 1)[0] for line in found})
    return found


def test_metrics_of_both_stages_are_one_page() -> None:
    merged = Merged()
    for stage in ("talker", "vocoder"):
        metrics = Metrics("m")
        metrics.slots.labels(stage).set(4)
        metrics.bus_up.labels().set(1)
        merged.registries.append(metrics.registry)
    found = lines(merged)
    assert 'tts_slots{model="m",stage="talker"} 4.0' in found
    assert 'tts_slots{model="m",stage="vocoder"} 4.0' in found
    assert sum(line.startswith("tts_bus_up") for line in found) == 1
    assert lines(merged) == found


def collected(metrics: Metrics) -> list[Metric]:
    return list(metrics.registry.collect())


def test_what_edges_measure_comes_on_top() -> None:
    here, there = Metrics("m"), Metrics("m")
    merged = Merged()
    merged.registries.append(here.registry)
    merged.elsewhere.append(partial(collected, there))
    here.slots.labels("talker").set(4)
    there.slots.labels("talker").set(3)
    there.recoveries.labels("talker").inc(2)
    here.recoveries.labels("talker").inc()
    found = lines(merged)
    assert 'tts_slots{model="m",stage="talker"} 4.0' in found
    assert 'tts_recoveries_total{model="m",stage="talker"} 3.0' in found


@pytest.mark.parametrize("lost", [0, 1])
def test_one_edge_without_a_broker_is_not_hidden_by_the_other(lost: int) -> None:
    edges, merged = [Metrics("m"), Metrics("m")], Merged()
    merged.registries.append(Metrics("m").registry)
    merged.elsewhere += [partial(collected, edge) for edge in edges]
    for number, edge in enumerate(edges):
        for gauge in (edge.bus_up, edge.store_up):
            gauge.labels().set(number != lost)
    assert {'tts_bus_up{model="m"} 0.0', 'tts_store_up{model="m"} 0.0'} <= set(lines(merged))


def test_an_edge_gets_the_settings_of_its_stage_and_probes_of_its_own() -> None:
    given = {
        "ANTIPHON_SLOTS": "8",
        "ANTIPHON_KV_BLOCKS": "128",
        "ANTIPHON_VOCODER__SLOTS": "16",
        "ANTIPHON_PORT_FILE": "/tmp/ports",
        "ANTIPHON_ADMIN_PORT": "9000",
        "HOME": "/root",
    }
    edge = pair.edge_environ(VocoderSettings, "vocoder", given)
    assert edge == {
        "ANTIPHON_SLOTS": "16",
        "ANTIPHON_ADMIN_HOST": "127.0.0.1",
        "ANTIPHON_ADMIN_PORT": "0",
        "HOME": "/root",
    }
    VocoderSettings.load(edge)


async def test_an_edge_that_ends_takes_all_along() -> None:
    whole = Service("pair", TalkerSettings())
    environ = {
        **os.environ,
        "ANTIPHON_ENGINE": "fake",
        "ANTIPHON_BUS__URLS": "nats://127.0.0.1:1",
        "ANTIPHON_VOCODER__ADMIN_PORT": "1",  # not for an edge
    }
    started: list[pair.Half] = []
    spawn = pair.Half.spawn

    async def spy(half: pair.Half) -> None:
        await spawn(half)
        started.append(half)
        if len(started) == 2:
            half.process.kill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair.Half, "spawn", spy)
        with pytest.raises(pair.EdgeEnded, match="talker's edge has ended with status -9"):
            async with asyncio.timeout(TIMEOUT_S):
                await pair.serve(whole, *pair.load_settings(_own(environ)), environ)
    assert [half.process.returncode is not None for half in started] == [True, True]
    assert "talker starting" in whole.ready().problems


def _own(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith("ANTIPHON_")}


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
