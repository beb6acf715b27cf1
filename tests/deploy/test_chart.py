"""The chart renders, and makes only what Kubernetes and the services understand."""

import os
import re
from pathlib import Path
from typing import Final

import kubernetes_validate
import pytest
import yaml
from helm_python.chart import lint

from gateway.keys import KeyRing
from tests.deploy.chart import (
    CHART,
    LOADER,
    MODEL,
    PASSWORD,
    ROOT,
    SECRETS,
    VERSIONS,
    Object,
    environment,
    every_example,
    example,
    in_cluster,
    jobs,
    named,
    of_kind,
    pods,
    render,
    scheduled,
    selector_of,
    understood,
)

GOLDEN: Final = Path(__file__).parent / "golden"


def test_the_chart_has_no_lint_errors() -> None:
    assert lint(CHART)["errors"] == []


@every_example
def test_an_example_renders_as_it_did(name: str) -> None:
    rendered, path = mask(render(example(name))), GOLDEN / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump_all(rendered, sort_keys=False, width=100))
    assert rendered == list(yaml.load_all(path.read_text(), LOADER))


def mask(objects: list[Object]) -> list[Object]:
    """Random passwords differ in every rendering."""
    for secret in of_kind(objects, "Secret"):
        secret["data"] = dict.fromkeys(secret["data"], "random")
    return objects


@every_example
@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_in_the_apis_schema(name: str, version: str) -> None:
    for found in in_cluster(render(example(name))):
        kubernetes_validate.validate(found, version, strict=True)


@every_example
def test_the_services_understand_their_environment(name: str) -> None:
    found = pods(render(example(name)))
    services = {n: pod for n, pod in found.items() if not n.endswith("-nats")}
    assert len(services) >= 2
    for pod in services.values():
        for service, settings in understood(pod):
            assert settings.bus.user == service
            assert settings.bus.password == PASSWORD
            assert (settings.bus.system_user == "system") is (service == "gateway")
            assert pod["spec"]["terminationGracePeriodSeconds"] > settings.drain_s


@every_example
def test_workloads_services_budgets_and_policies_select_the_pods_they_are_for(name: str) -> None:
    objects = render(example(name))
    found_pods = [*pods(objects).values(), *jobs(objects), *scheduled(objects).values()]
    labels = [pod["metadata"]["labels"] for pod in found_pods]
    for found in of_kind(
        objects, "Deployment", "StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy"
    ):
        selector = selector_of(found)
        assert any(selector.items() <= each.items() for each in labels), found["metadata"]["name"]


@every_example
def test_no_container_is_root_or_can_write_its_file_system(name: str) -> None:
    objects = render(example(name))
    for pod in [*pods(objects).values(), *jobs(objects), *scheduled(objects).values()]:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["automountServiceAccountToken"] is False
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


@every_example
def test_probes_ask_the_admin_port(name: str) -> None:
    for workload, pod in pods(render(example(name))).items():
        container = pod["spec"]["containers"][0]
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] in ports
        if not workload.endswith("-nats"):
            assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.parametrize("name", ["one-gpu", "fleet"])
def test_a_gateway_reads_its_keys_under_the_name_that_is_documented(
    name: str, tmp_path: Path
) -> None:
    pod = pods(render(example(name)))["antiphon-gateway"]["spec"]
    [volume] = [v for v in pod["volumes"] if v["name"] == "keys"]
    assert volume["secret"] == {"secretName": "antiphon-keys"}
    mounts = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    path = environment({"spec": pod}, SECRETS)["ANTIPHON_KEYS_FILE"]
    assert path == f"{mounts['keys']}/keys.toml"
    documentation = (ROOT / "docs/operations.md").read_text()
    assert "--from-file=keys.toml" in documentation
    section = documentation.split("## API keys")[1]
    (tmp_path / "keys.toml").write_text(section.split("```toml")[1].split("```")[0])
    assert "acme" in KeyRing.load(tmp_path / "keys.toml").tenants


def test_the_documented_steps_build_the_images_that_the_chart_asks_for() -> None:
    documentation = (ROOT / "docs/deploy.md").read_text()
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert f"TAG={version} " in documentation
    built = set(re.findall(r"docker build .* -t (\S+) \.", documentation))
    gpu = {"gpu": {"count": 1}}
    asked = set()
    pair = {"models": [{**MODEL, "paired": True}]}
    for objects in (render({}), render({"talker": gpu, "vocoder": gpu}), render(pair)):
        for pod in [*pods(objects).values(), *jobs(objects)]:
            spec = pod["spec"]
            containers = [*spec["containers"], *spec.get("initContainers", [])]
            asked |= {one["image"].replace(version, "$TAG") for one in containers}
    assert {image for image in asked if image.startswith("antiphon-")} == built


def test_new_pods_wait_for_the_stage_behind_them() -> None:
    found = pods(render({"upgrade": {"patienceSeconds": 60}}))
    waiting = {
        name: [
            one["command"][-3:]
            for one in pod["spec"].get("initContainers", ())
            if one["name"] == "order"
        ]
        for name, pod in found.items()
    }
    assert waiting["antiphon-vesper-talker"] == [["talker", "--patience", "60"]]
    assert waiting["antiphon-gateway"] == [["gateway", "--patience", "60"]]
    assert waiting["antiphon-vesper-vocoder"] == waiting["antiphon-nats"] == []
    unordered = pods(render({"upgrade": {"ordered": False}}))
    assert "initContainers" not in unordered["antiphon-gateway"]["spec"]


def test_argo_cd_keeps_the_same_order() -> None:
    objects = render({})

    def wave(kind: str, name: str) -> int:
        return int(
            named(objects, kind, name)["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"]
        )

    [setup] = of_kind(objects, "Job")
    order = [
        wave("StatefulSet", "antiphon-nats"),
        wave("Job", setup["metadata"]["name"]),
        wave("Deployment", "antiphon-vesper-vocoder"),
        wave("Deployment", "antiphon-vesper-talker"),
        wave("Deployment", "antiphon-gateway"),
    ]
    assert order == sorted(set(order))
    early = [wave(kind, "antiphon-nats") for kind in ("ConfigMap", "Service", "NetworkPolicy")]
    assert set(early) == {order[0]}
