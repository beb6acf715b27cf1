"""Renderings of the chart: objects by kind and name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from helm_python.chart import Chart

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "helm/antiphon"
EXAMPLES: Final = ("laptop", "one-gpu", "fleet")

# PyYAML's own parser takes seconds for a fleet; libyaml's is not in every wheel.
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Object = dict[str, Any]


def example(name: str) -> Mapping[str, Any]:
    """The values of one of the chart's examples."""
    values: dict[str, Any] = yaml.safe_load((CHART / "examples" / f"{name}.yaml").read_text())
    return values


def render(values: Mapping[str, Any]) -> list[Object]:
    """Every object that the chart makes of `values`, in the order of its templates."""
    objects: list[Object] = []
    for path, text in sorted(templates(values).items()):
        if not path.endswith(".txt"):
            objects += [found for found in yaml.load_all(text, LOADER) if found]
    return objects


def templates(values: Mapping[str, Any]) -> Mapping[str, str]:
    """What each template becomes, notes included; rendered once for the same values."""
    return _templates(json.dumps(dict(values), sort_keys=True))


@cache
def _templates(values: str) -> Mapping[str, str]:
    return _chart().render(values=json.loads(values), name="antiphon", namespace="speech")


@cache
def _chart() -> Chart:
    return Chart.load(CHART)


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    return [found for found in objects if found["kind"] in kinds]


def named(objects: list[Object], kind: str, name: str) -> Object:
    [found] = [o for o in of_kind(objects, kind) if o["metadata"]["name"] == name]
    return found


def pods(objects: list[Object]) -> dict[str, Object]:
    """The pod templates by their workload's name."""
    workloads = of_kind(objects, "Deployment", "StatefulSet")
    return {found["metadata"]["name"]: found["spec"]["template"] for found in workloads}


def jobs(objects: list[Object]) -> list[Object]:
    """The pod templates of what runs once, with every release."""
    return [found["spec"]["template"] for found in of_kind(objects, "Job")]


def scheduled(objects: list[Object]) -> dict[str, Object]:
    """The pod templates of what runs at set times or on demand, by name."""
    return {
        found["metadata"]["name"]: found["spec"]["jobTemplate"]["spec"]["template"]
        for found in of_kind(objects, "CronJob")
    }


def environment(pod: Object, secrets: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What the pod's first container finds in its environment."""
    values = {}
    for variable in pod["spec"]["containers"][0]["env"]:
        if "value" in variable:
            values[variable["name"]] = variable["value"]
        elif secret := variable["valueFrom"].get("secretKeyRef"):
            values[variable["name"]] = secrets[secret["name"]][secret["key"]]
        else:
            values[variable["name"]] = "pod-0"
    return values
