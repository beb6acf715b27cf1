"""What autoscaling asks for: of recorded loads (tests/deploy/loads.py), and of an idle stack."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from antiphon.stack import LocalStack
from tests.deploy.chart import CHART, ROOT, named, of_kind, promtool, render
from tests.deploy.loads import FOLDER, LOADS, SCRAPE_S, SCRAPES, WORKERS
from tests.pipeline.test_metrics import Exported

SIGNALS: Final = {
    "antiphon_demand_ratio": "demandRatio",
    "antiphon_low_slack_ratio": "lowSlackRatio",
    "antiphon_gap_ratio": "gapRatio",
}
# More talkers than there are, as many, or fewer; and vocoders, which are idle all the time.
MORE, SAME, FEWER = range(WORKERS + 1, 4 * WORKERS), (WORKERS,), range(WORKERS)
WANTED: Final = {
    "idle": FEWER,
    "short": (*FEWER, *SAME),
    "long": (*FEWER, *SAME),
    "overload": MORE,
    "one-slow-worker": (*FEWER, *SAME),
}
STEP: Final = f"{SCRAPE_S:g}s"
TEXTS: Final = (
    "Good morning.",
    "The tide is coming in, and the boats along the quay begin to lift and turn. " * 4,
)


@pytest.mark.slow
@pytest.mark.parametrize("stack", [{"engine": "fake"}], indirect=True)
async def test_an_idle_system_does_not_ask_for_more_workers(stack: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=stack.url, timeout=60) as client:
        for text in TEXTS * 3:
            body = {"input": text, "response_format": "pcm"}
            (await client.post("/v1/audio/speech", json=body)).raise_for_status()
        port = stack.children["gateway"].ports["admin"]
        page = Exported((await client.get(f"http://127.0.0.1:{port}/metrics")).text)
    slack = "tts_playback_slack_seconds"
    opening = page(f"{slack}_bucket", stage="gateway", le="0.2") / page(
        f"{slack}_count", stage="gateway"
    )
    steady = page("tts_steady_chunks_total")
    assert steady > 0
    tight = 1 - page("tts_steady_chunks_total", in_hand="ample") / steady
    print(f"chunks with less than 0.2 s in hand: {opening:.1%} of all, {tight:.1%} of steady ones")
    assert tight < targets()["lowSlackRatio"] / 2


def targets() -> dict[str, float]:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    found: dict[str, float] = values["talker"]["autoscaling"]
    return found


def true(series: Mapping[str, Sequence[float | None]], *claims: str) -> dict[str, Any]:
    """A test of promtool: the claims hold at the last scrape."""
    inputs = [
        {"series": name, "values": " ".join("_" if v is None else f"{v:g}" for v in values)}
        for name, values in series.items()
    ]
    at = f"{SCRAPE_S * (SCRAPES - 1):g}s"
    expected = [{"labels": "{}", "value": 1}]
    checks = [{"expr": one, "eval_time": at, "exp_samples": expected} for one in claims]
    return {"interval": STEP, "input_series": inputs, "promql_expr_test": checks}


def desired(stage: str) -> str:
    """What the HPA's arithmetic makes of the signals' last 40 s: workers of a stage."""
    each = [
        f'{WORKERS} * avg_over_time({name}{{stage="{stage}"}}[40s]) / {targets()[key]}'
        for name, key in SIGNALS.items()
    ]
    return " or ".join(
        f'label_replace({one}, "signal", "{n}", "", "")' for n, one in enumerate(each)
    )


def within(stage: str, lowest: int, highest: int) -> str:
    most = f"max(ceil({desired(stage)}))"
    return f"({most} >= bool {lowest}) * ({most} <= bool {highest})"


@pytest.mark.parametrize("load", LOADS)
def test_workers_follow_what_a_recorded_load_asks_for(load: str, tmp_path: Path) -> None:
    series = json.loads((FOLDER / f"{load}.json").read_text())
    talkers = within("talker", min(WANTED[load]), max(WANTED[load]))
    promtool(tmp_path, STEP, [true(series, talkers, within("vocoder", 0, WORKERS - 1))])


def chunks(shares: Mapping[str, int], in_hand: str) -> dict[str, list[float | None]]:
    """Of 100 chunks a scrape, each worker sends so many with `in_hand`, the others with more."""
    found: dict[str, list[float | None]] = {}
    for instance, share in shares.items():
        labels = f'stage="talker", model="vesper", namespace="speech", instance="{instance}"'
        for kind, count in ((in_hand, share), ("ample", 100 - share)):
            name = f'tts_steady_chunks_total{{in_hand="{kind}", {labels}}}'
            found[name] = [float(count * n) for n in range(SCRAPES)]
    return found


@pytest.mark.parametrize(
    ("in_hand", "signal"),
    [("tight", "antiphon_low_slack_ratio"), ("none", "antiphon_gap_ratio")],
)
def test_what_all_workers_have_in_common_counts_and_one_slow_worker_does_not(
    in_hand: str, signal: str, tmp_path: Path
) -> None:
    target = targets()[SIGNALS[signal]]
    common = chunks({"a": 20, "b": 25, "c": 30, "d": 35}, in_hand)
    single = chunks({"a": 0, "b": 0, "c": 0, "d": 90}, in_hand)
    tests = [
        true(common, f"sum({signal}) > bool {4 * target}"),
        true(single, f"sum({signal}) < bool {target / 4}"),
    ]
    promtool(tmp_path, STEP, tests)


@pytest.mark.parametrize("kind", ["keda", "hpa"])
def test_every_scaler_asks_for_what_the_chart_records(kind: str) -> None:
    """Even without alerts: a scaler must not ask for what is not there."""
    objects = render({"talker": {"autoscaling": {"kind": kind}}})
    [rules] = of_kind(objects, "PrometheusRule")
    recorded = {r["record"] for group in rules["spec"]["groups"] for r in group["rules"]}
    assert set(SIGNALS) <= recorded
    assert not any("alert" in r for group in rules["spec"]["groups"] for r in group["rules"])
    [scaler] = of_kind(objects, "ScaledObject", "HorizontalPodAutoscaler")
    text = json.dumps(scaler)
    assert all(signal in text for signal in SIGNALS)
    values = {"talker": {"autoscaling": {"kind": kind}}}
    without = render({**values, "monitoring": {"prometheusRule": {"recording": False}}})
    assert not of_kind(without, "PrometheusRule")


def test_the_metrics_adapter_serves_what_an_hpa_asks_for() -> None:
    adapter = yaml.safe_load((ROOT / "deploy/prometheus-adapter.yaml").read_text())
    [rule] = adapter["rules"]["external"]
    hpa = named(
        render({"talker": {"autoscaling": {"kind": "hpa"}}}),
        "HorizontalPodAutoscaler",
        "antiphon-vesper-talker",
    )
    pattern = re.search(r'__name__=~"([^"]*)"', rule["seriesQuery"])
    assert pattern
    for metric in hpa["spec"]["metrics"]:
        assert re.fullmatch(pattern[1], metric["external"]["metric"]["name"])
    assert rule["resources"]["overrides"] == {"namespace": {"resource": "namespace"}}
