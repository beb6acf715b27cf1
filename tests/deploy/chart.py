"""Renderings of the chart: objects by kind and name."""

import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from helm_python.chart import Chart

from antiphon.pair import load_settings
from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from ttscommon.process.settings import ServiceSettings
from vocoder.settings import VocoderSettings

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "helm/antiphon"
ALERTS: Final = CHART / "alerts/antiphon.yaml"
EXAMPLES: Final = ("laptop", "one-gpu", "fleet")

# PyYAML's own parser takes seconds for a fleet; libyaml's is not in every wheel.
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Object = dict[str, Any]

SETTINGS: Final[dict[str, type[ServiceSettings]]] = {
    "gateway": GatewaySettings,
    "talker": TalkerSettings,
    "vocoder": VocoderSettings,
}
PASSWORD: Final = "p" + "Secret" * 6
SECRETS: Final = defaultdict(lambda: defaultdict(lambda: PASSWORD))  # type: ignore[var-annotated]
# The oldest Kubernetes that the chart supports, and one of today.
VERSIONS: Final = ("1.27", "1.34")
MODEL: Final = {"name": "vesper", "weights": {"image": "voices", "path": "vesper"}}
# Models that share pods.
HOUSEHOLD: Final[dict[str, Any]] = {
    "name": "amy",
    "weights": {"claim": "voices", "path": "piper/amy"},
    "sharing": [
        {"name": "joe", "path": "piper/joe"},
        {"name": "higgs", "path": "higgs", "codec": "higgs-codec"},
    ],
}

every_example = pytest.mark.parametrize("name", EXAMPLES)


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


def in_cluster(objects: list[Object]) -> list[Object]:
    """The objects whose kinds are Kubernetes' own, for which there are schemas."""
    own = ("v1", "apps/v1", "batch/v1", "policy/v1", "autoscaling/v2", "networking.k8s.io/v1")
    return [found for found in objects if found["apiVersion"] in own]


def understood(pod: Object) -> Iterator[tuple[str, ServiceSettings]]:
    """What each service in a pod reads of its environment."""
    component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
    if component == "pair":
        yield from zip(("talker", "vocoder"), load_settings(environment(pod, SECRETS)), strict=True)
    else:
        yield component, SETTINGS[component].load(environment(pod, SECRETS))


def promtool(folder: Path, interval: str, tests: Sequence[Mapping[str, Any]]) -> None:
    """Run promtool's tests over the chart's rules, where it is installed."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    whole = {"rule_files": [str(ALERTS)], "evaluation_interval": interval, "tests": list(tests)}
    (folder / "tests.yaml").write_text(yaml.safe_dump(whole))
    command = [program, "test", "rules", str(folder / "tests.yaml")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


def selector_of(found: Object) -> dict[str, str]:
    spec = found["spec"]
    selector: dict[str, Any] = spec.get("selector", spec.get("podSelector"))
    labels: dict[str, str] = selector.get("matchLabels", selector)
    return labels


def external(kind: str, **tls: Any) -> dict[str, Any]:
    """Values for a broker elsewhere that knows services by `kind`."""
    return {
        "nats": {"enabled": False},
        "externalBus": {"urls": ["tls://bus:4222"], "tls": tls},
        "busAuth": {"kind": kind, "existingSecret": "identities"},
    }
