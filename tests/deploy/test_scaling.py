"""What autoscaling asks for, of a stack that is idle but for one listener at a time."""

from __future__ import annotations

from typing import Final

import httpx
import pytest
import yaml

from antiphon.stack import LocalStack
from tests.deploy.chart import CHART, example, of_kind, render
from tests.pipeline.test_metrics import Exported

TEXTS: Final = (
    "Good morning.",
    "The tide is coming in, and the boats along the quay begin to lift and turn. " * 4,
)


@pytest.mark.parametrize("stack", [{"engine": "fake"}], indirect=True)
async def test_an_idle_system_does_not_ask_for_more_workers(stack: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=stack.url, timeout=60) as client:
        for text in TEXTS * 3:
            body = {"input": text, "response_format": "pcm"}
            (await client.post("/v1/audio/speech", json=body)).raise_for_status()
        port = stack.children["gateway"].ports["admin"]
        page = Exported((await client.get(f"http://127.0.0.1:{port}/metrics")).text)
    threshold = yaml.safe_load((CHART / "values.yaml").read_text())["talker"]["autoscaling"]
    slack = "tts_playback_slack_seconds"
    opening = page(f"{slack}_bucket", stage="gateway", le="0.2") / page(
        f"{slack}_count", stage="gateway"
    )
    steady = page("tts_steady_chunks_total")
    assert steady > 0
    tight = page("tts_steady_chunks_total", tight="true") / steady
    print(f"chunks with less than 0.2 s in hand: {opening:.1%} of all, {tight:.1%} of steady ones")
    assert tight < threshold["lowSlackRatio"] / 2


def test_every_scaler_asks_for_slack_behind_first_chunks() -> None:
    rules = yaml.safe_load((CHART / "alerts/antiphon.yaml").read_text())
    [expression] = [
        rule["expr"]
        for group in rules["groups"]
        for rule in group["rules"]
        if rule.get("record") == "antiphon_low_slack_ratio"
    ]
    assert "tts_steady_chunks_total" in expression
    assert "tts_playback_slack_seconds" not in expression
    scalers = of_kind(render(example("fleet")), "ScaledObject", "HorizontalPodAutoscaler")
    asking = [one for one in scalers if "antiphon_low_slack_ratio" in str(one)]
    assert len(asking) == 4
