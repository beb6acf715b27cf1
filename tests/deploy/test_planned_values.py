"""Values that the planner writes are values of the chart."""

from dataclasses import replace
from typing import Any

import yaml

from antiphon_bench.plan.costs import Setup, Shape
from antiphon_bench.plan.report import as_json, chart_values
from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from tests.deploy.chart import Object, named, render
from tests.unit.antiphon_bench.plan.scene import setup
from vocoder.settings import VocoderSettings

PLANNED: Setup = setup(slots=48)
SHAPE = Shape(gateways=3, talkers=5, vocoders=4, brokers=3)


def rendered() -> list[Object]:
    values: dict[str, Any] = yaml.safe_load(as_json(chart_values(PLANNED, SHAPE, "vesper")))
    return render(values)


def variables(found: Object) -> dict[str, str]:
    env = found["spec"]["template"]["spec"]["containers"][0]["env"]
    return {one["name"]: one["value"] for one in env if "value" in one}


def test_the_chart_makes_as_many_of_each_as_were_planned() -> None:
    objects = rendered()
    replicas = {
        (found["kind"], found["metadata"]["name"]): found["spec"]["replicas"]
        for found in objects
        if found["kind"] in ("Deployment", "StatefulSet")
    }
    assert replicas[("Deployment", "antiphon-gateway")] == 3
    assert replicas[("Deployment", "antiphon-vesper-talker")] == 5
    assert replicas[("Deployment", "antiphon-vesper-vocoder")] == 4
    assert replicas[("StatefulSet", "antiphon-nats")] == 3


def test_services_get_the_settings_that_were_simulated() -> None:
    objects = rendered()
    talker = variables(named(objects, "Deployment", "antiphon-vesper-talker"))
    assert talker["ANTIPHON_SLOTS"] == "48"
    assert talker["ANTIPHON_BATCH_STREAMS"] == "32"
    gateway = variables(named(objects, "Deployment", "antiphon-gateway"))
    assert gateway["ANTIPHON_UTILISATION"] == "0.85"


def test_every_setting_is_one_of_its_service() -> None:
    values = chart_values(PLANNED, SHAPE, "vesper")
    [model] = values["models"]
    for given, kind in (
        (values["gateway"]["settings"], GatewaySettings),
        (model["talker"]["settings"], TalkerSettings),
        (model["vocoder"]["settings"], VocoderSettings),
    ):
        assert kind(**given) == kind(**{**kind().model_dump(include=set(given)), **given})


def test_other_numbers_of_workers_are_other_values() -> None:
    other = chart_values(PLANNED, replace(SHAPE, talkers=6), "vesper")
    assert other != chart_values(PLANNED, SHAPE, "vesper")
