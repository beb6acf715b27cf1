"""What an operator may set, and what the chart refuses."""

from typing import Any

import kubernetes_validate
import pytest
import yaml
from helm_python.errors import HelmError

from antiphon_bench.plan.costs import Shape
from antiphon_bench.plan.report import as_json, chart_values
from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from tests.deploy.chart import (
    HOUSEHOLD,
    MODEL,
    SECRETS,
    VERSIONS,
    environment,
    in_cluster,
    of_kind,
    pods,
    render,
    templates,
    understood,
)
from tests.unit.antiphon_bench.plan.scene import setup


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"gatway": {}}, "gatway"),
        ({"gateway": {"replica": 2}}, "replica"),
        ({"nats": {"replicas": 2}}, "nats/replicas"),
        ({"models": []}, "models"),
        ({"talker": {"settings": {"slots": [1]}}}, "slots"),
        ({"busAuth": {"kind": "creds", "existingSecret": "identities"}}, "external bus"),
        ({"models": [HOUSEHOLD | {"paired": True}]}, "cannot be paired"),
        ({"models": [HOUSEHOLD | {"talker": {"gpu": {"count": 1}}}]}, "on a CPU alone"),
        (
            {"models": [HOUSEHOLD | {"talker": {"autoscaling": {"kind": "keda"}}}]},
            "no scaler counts",
        ),
        (
            {"models": [HOUSEHOLD | {"sharing": [{"name": "amy", "path": "amy"}]}]},
            "'amy' is there twice",
        ),
        ({"models": [MODEL, MODEL]}, "'vesper' is there twice"),
        (
            {"talker": {"autoscaling": {"kind": "hpa", "minReplicas": 5, "maxReplicas": 2}}},
            "antiphon-vesper-talker: autoscaling.minReplicas is more than maxReplicas",
        ),
        (
            {"gateway": {"autoscaling": {"enabled": True, "minReplicas": 50}}},
            "gateway: autoscaling.minReplicas is more than maxReplicas",
        ),
        ({"nats": {"maxLogBytes": "5Gi"}}, "and queues need 28662 Mi"),
        ({"nats": {"storage": {"size": "2 GB"}}}, "nats/storage/size"),
        ({"nats": {"maxMemoryStore": "2 GB"}}, "nats/maxMemoryStore"),
        (
            {"fullnameOverride": "a" * 40, "models": [{**MODEL, "name": "b" * 30}]},
            "longer than 63 characters",
        ),
        (
            {"gateway": {"resources": {"limits": {"memory": "1Gi"}}}},
            "1000 streams to slow listeners and 64 of jobs need 3044 Mi",
        ),
        ({"image": {"digests": {"antiphon-gateway": "latest"}}}, "digests"),
    ],
)
def test_values_that_mean_nothing_or_cannot_work_are_refused(
    values: dict[str, Any], said: str
) -> None:
    with pytest.raises(HelmError, match=said):
        render(values)


def test_pods_take_what_an_operator_adds() -> None:
    added: dict[str, Any] = {
        "podAnnotations": {"team": "speech"},
        "podLabels": {"cost": "voice"},
        "affinity": {"nodeAffinity": {}},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    }
    volumes: dict[str, Any] = {
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
    }
    whole = {**added, **volumes}
    objects = render({"gateway": whole, "talker": whole, "vocoder": whole, "nats": added})
    for name, pod in pods(objects).items():
        assert pod["metadata"]["annotations"]["team"] == "speech"
        assert pod["metadata"]["labels"]["cost"] == "voice"
        assert pod["spec"]["affinity"] == {"nodeAffinity": {}}
        assert environment(pod, SECRETS)["HTTPS_PROXY"] == "http://proxy:3128"
        if not name.endswith("-nats"):
            assert volumes["extraVolumes"][0] in pod["spec"]["volumes"]
            mounts = pod["spec"]["containers"][0]["volumeMounts"]
            assert volumes["extraVolumeMounts"][0] in mounts
    for found in in_cluster(objects):
        kubernetes_validate.validate(found, VERSIONS[-1], strict=True)


def test_an_image_may_be_named_by_its_digest() -> None:
    digest = f"sha256:{'a' * 64}"
    values = {"image": {"registry": "r.example", "digests": {"antiphon-talker": digest}}}
    found = pods(render(values))
    talker, vocoder = found["antiphon-vesper-talker"], found["antiphon-vesper-vocoder"]
    assert talker["spec"]["containers"][0]["image"] == f"r.example/antiphon-talker@{digest}"
    assert "@" not in vocoder["spec"]["containers"][0]["image"]


def test_nginx_takes_bodies_as_large_as_an_adapter() -> None:
    [ingress] = of_kind(render({"ingress": {"enabled": True, "host": "a.example"}}), "Ingress")
    size = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert int(size.removesuffix("m")) << 20 > GatewaySettings().max_adapter_bytes


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "port-forward service/antiphon-gateway"),
        ({}, "do not change nats.replicas of this release"),
        ({"nats": {"replicas": 3}, "gateway": {"keysSecret": "keys"}}, "rollout status"),
        ({"ingress": {"enabled": True, "host": "a.example"}}, "Listen at http://a.example"),
        (
            {"ingress": {"enabled": True, "host": "a.example", "tlsSecret": "t"}},
            "Listen at https://a.example",
        ),
    ],
)
def test_the_notes_say_where_to_listen_and_what_is_weak(values: dict[str, Any], said: str) -> None:
    assert said in templates(values)["antiphon/templates/NOTES.txt"]


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
