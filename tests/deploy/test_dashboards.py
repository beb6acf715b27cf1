"""Dashboards, alerts and scalers ask only for metrics and labels that the services export."""

import json
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.chart import ALERTS, ROOT, example, of_kind, promtool, render
from tests.deploy.engine import deployed
from tests.deploy.observe import OF_BROKERS, OF_DRAFTS, OF_STATES, draw, empty, observe
from tools.dashboards import DASHBOARDS, FOLDER, grafana
from ttscommon.bus.export import BrokerMetrics
from ttscommon.process.metrics import GatewayMetrics, Metrics

RUNBOOKS: Final = ROOT / "docs/operations.md"
# What a scrape adds.
OF_PROMETHEUS: Final = {"service", "instance", "namespace", "le"}


@cache
def exported() -> dict[str, set[str]]:
    """Every series' name with its labels, in an engine and in a gateway."""
    found: dict[str, set[str]] = {"up": {"service"}}
    for family in GatewayMetrics().registry.collect():  # those of the process declare no names
        found.update({sample.name: set(sample.labels) for sample in family.samples})
    for one in (Metrics("vesper").registry, GatewayMetrics().registry, BrokerMetrics().registry):
        for collector in list(one._collector_to_names):
            labels = set(getattr(collector, "_labelnames", ()))
            for name in one._collector_to_names[collector]:
                found.setdefault(name, set()).update(labels)
    return found


def recorded(rules: dict[str, Any]) -> dict[str, set[str]]:
    """Names that recording rules make, with the labels they are grouped by."""
    found = {}
    for rule in each_rule(rules):
        if "record" in rule:
            grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])[0]
            found[rule["record"]] = {label.strip() for label in grouped.split(",")}
    return found


def each_rule(rules: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for group in rules["groups"]:
        yield from group["rules"]


@cache
def alerts() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ALERTS.read_text())
    return found


@cache
def queries() -> dict[str, str]:
    """Every PromQL expression of the repository by the place where it stands."""
    found = {}
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for number, query in enumerate(panel.queries.values()):
                found[f"{dashboard.title}: {panel.title} {number}"] = query
    for rule in each_rule(alerts()):
        found[rule.get("alert") or rule["record"]] = rule["expr"]
    for scaler in of_kind(render(example("fleet")), "ScaledObject"):
        for number, trigger in enumerate(scaler["spec"]["triggers"]):
            found[f"{scaler['metadata']['name']} {number}"] = trigger["metadata"]["query"]
    return found


def used(query: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics of ours in a query, each with the labels that it is selected by."""
    for name, selector in re.findall(
        r"\b((?:tts|antiphon|process)_\w+|up)\b(?:\{([^}]*)\})?", query
    ):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))


@pytest.mark.parametrize("place", queries())
def test_every_query_asks_for_what_the_services_export(place: str) -> None:
    query, known = queries()[place], exported() | recorded(alerts())
    found = list(used(query))
    assert found
    for name, labels in found:
        assert name in known, f"nothing exports {name}"
        assert labels <= known[name] | OF_PROMETHEUS, f"{name} has no such label"
    for grouped in re.findall(r"by \(([^)]*)\)", query):
        labels = {label.strip() for label in grouped.split(",")} - OF_PROMETHEUS
        assert any(labels <= known[name] for name, _ in found)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.uid)
def test_the_charts_dashboards_are_those_of_the_tables(dashboard: Any) -> None:
    path = FOLDER / f"{dashboard.uid.removeprefix('antiphon-')}.json"
    assert json.loads(path.read_text()) == grafana(dashboard)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.uid)
def test_every_panel_shows_the_chosen_namespace(dashboard: Any) -> None:
    assert next(iter(dashboard.variables)) == "namespace"
    for panel in dashboard.panels:
        for query in panel.queries.values():
            for _, labels in used(query):
                assert "namespace" in labels, panel.title


def test_the_charts_runbook_links_open_where_the_runbooks_are() -> None:
    base = "https://git.example.com/speech/docs/operations.md"
    values = {"monitoring": {"prometheusRule": {"enabled": True, "runbooks": base}}}
    [rules] = of_kind(render(values), "PrometheusRule")
    found = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    links = [rule["annotations"]["runbook_url"] for rule in found if "alert" in rule]
    assert links
    assert all(link.startswith(f"{base}#antiphon") for link in links)


def test_every_alert_has_a_runbook() -> None:
    headings = {
        re.sub(r"[^\w-]", "", line.lstrip("# ").lower().replace(" ", "-"))
        for line in RUNBOOKS.read_text().splitlines()
        if line.startswith("#")
    }
    for rule in each_rule(alerts()):
        if "alert" in rule:
            page, _, section = rule["annotations"]["runbook_url"].partition("#")
            assert page == "docs/operations.md"
            assert section in headings


FIRED: Final[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("alerts.yaml").read_text())


def test_alerts_fire_and_resolve(tmp_path: Path) -> None:
    tests = []
    for what, one in FIRED.items():
        page = f"docs/operations.md#{one['alert'].lower()}"
        moments: dict[str, list[Any]] = {at: [] for at in one.get("quiet", ())} | {
            at: [
                {
                    "exp_labels": told["labels"],
                    "exp_annotations": {"summary": told["summary"], "runbook_url": page},
                }
                for told in every
            ]
            for at, every in one["fires"].items()
        }
        tests.append(
            {
                "name": what,
                "interval": one.get("interval", "15s"),
                "input_series": [{"series": n, "values": f"{v}"} for n, v in one["series"].items()],
                "alert_rule_test": [
                    {"eval_time": at, "alertname": one["alert"], "exp_alerts": every}
                    for at, every in moments.items()
                ],
            }
        )
    promtool(tmp_path, "15s", tests)


def test_every_alert_is_fired_by_a_test() -> None:
    resolved = {one["alert"] for one in FIRED.values() if "quiet" in one}
    every = {rule["alert"] for rule in each_rule(alerts()) if "alert" in rule}
    assert {one["alert"] for one in FIRED.values() if one["fires"]} == resolved == every


@deployed
async def test_every_panel_shows_a_run_with_overload_deaths_and_leavers(tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    found = await observe("fake", rates=(2.0, 4.0, 30.0), step_s=12.0)
    assert empty(found) == OF_STATES + OF_DRAFTS + OF_BROKERS
    for dashboard in DASHBOARDS:
        draw(dashboard, found, tmp_path / f"{dashboard.uid}.png")
