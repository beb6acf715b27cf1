"""Values that the planner writes are values of the chart."""

from typing import Any

import yaml

from antiphon_bench.plan.costs import Shape
from antiphon_bench.plan.report import as_json, chart_values
from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from tests.deploy.chart import of_kind, pods, render, understood
from tests.unit.antiphon_bench.plan.scene import setup


def test_the_chart_makes_what_was_planned_with_the_settings_that_were_simulated() -> None:
    shape = Shape(gateways=3, talkers=5, vocoders=4, brokers=3)
    values: dict[str, Any] = yaml.safe_load(as_json(chart_values(setup(slots=48), shape, "vesper")))
    objects = render(values)
    replicas = {
        found["metadata"]["name"]: found["spec"]["replicas"]
        for found in of_kind(objects, "Deployment", "StatefulSet")
    }
    assert replicas == {
        "antiphon-gateway": 3,
        "antiphon-vesper-talker": 5,
        "antiphon-vesper-vocoder": 4,
        "antiphon-nats": 3,
    }
    told = dict(understood(pods(objects)["antiphon-vesper-talker"]))
    told |= dict(understood(pods(objects)["antiphon-vesper-vocoder"]))
    told |= dict(understood(pods(objects)["antiphon-gateway"]))
    assert isinstance(told["talker"], TalkerSettings)
    assert (told["talker"].slots, told["talker"].batch_streams) == (48, 32)
    assert isinstance(told["gateway"], GatewaySettings)
    assert told["gateway"].utilisation == 0.85
