"""The container engine of this machine, and the stack of compose.yaml on it."""

import ipaddress
import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from testcontainers.compose import DockerCompose

from tests.otlp import OtlpReceiver

ROOT: Final = Path(__file__).resolve().parents[2]

# Grafana, the collector and Tempo have no stand-ins, so not everything is started here.
SERVICES: Final = ("nats", "gateway", "talker", "vocoder")

_ASKED: Final = "ANTIPHON_TEST_DEPLOY"
# What takes minutes, or builds and starts images, is not for every run of the tests.
deployed = pytest.mark.skipif(
    not os.environ.get(_ASKED), reason=f"run by `make test-deploy`, which sets {_ASKED}"
)
# A local Debian image with python3-venv, for a machine without an image registry.
LOCAL_BASE: Final = "ANTIPHON_TEST_BASE"

_BUILD_TIMEOUT_S: Final = 1200.0
_COMMAND_TIMEOUT_S: Final = 120.0


def needed() -> None:
    """Skip where containers cannot be run."""
    try:
        for command in (["docker", "info"], ["docker", "compose", "version"]):
            subprocess.run(command, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no container engine runs here: {error}")


@dataclass
class ComposeStack:
    """A running compose.yaml, with names of its own. `traces`: where its traces go."""

    compose: DockerCompose
    project: str
    traces: OtlpReceiver = field(default_factory=OtlpReceiver)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.compose.get_service_port('gateway', 8000)}"

    @property
    def prometheus(self) -> str:
        return f"http://127.0.0.1:{self.compose.get_service_port('prometheus', 9090)}"

    def containers(self, service: str) -> list[str]:
        """Ids of the running containers of a service."""
        labels = {"project": self.project, "service": service}
        filters = [f"--filter=label=com.docker.compose.{key}={labels[key]}" for key in labels]
        return docker("ps", "-q", *filters).split()

    def metrics(self, container: str) -> str:
        """What the admin port of a container exports."""
        page = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9100/metrics').read().decode())"
        return docker("exec", container, "python", "-c", page)

    def log(self, service: str) -> str:
        """What the containers of a service wrote."""
        return "".join(docker("logs", container) for container in self.containers(service))

    def scale(self, **services: int) -> None:
        """Run so many containers of each service, and wait until they are ready."""
        counts = [f"--scale={name}={count}" for name, count in services.items()]
        command = self.compose.docker_compose_command()
        subprocess.run(
            [*command, "up", "--wait", "--no-recreate", *counts, *services],
            cwd=ROOT,
            check=True,
            timeout=_COMMAND_TIMEOUT_S,
        )


def host_address() -> str:
    """The address of this machine, as containers reach it."""
    networks = json.loads(docker("network", "inspect", "bridge"))
    own = networks[0]["IPAM"]["Config"][0]
    # Engines before 23 name a gateway only where one was asked for: it is the first address.
    first = next(ipaddress.ip_network(own["Subnet"]).hosts())
    return str(own.get("Gateway", first))


def docker(*arguments: str) -> str:
    """The output of a docker command; raises CalledProcessError."""
    result = subprocess.run(
        ["docker", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if arguments[0] == "logs" else None,
        text=True,
        timeout=_COMMAND_TIMEOUT_S,
    )
    return result.stdout


@contextmanager
def running(
    folder: Path,
    services: Sequence[str] = SERVICES,
    files: Sequence[str] = ("compose.yaml",),
    **variables: str,
) -> Iterator[ComposeStack]:
    """Build the compose `files` and run their `services` until the block ends, with no names in
    common with others. `variables` replace their defaults. Their volumes go with them.
    """
    needed()
    project = f"antiphon-test-{secrets.token_hex(3)}"
    env_file = folder / "compose.env"
    ports = dict.fromkeys(("PORT", "PROMETHEUS_PORT", "GRAFANA_PORT"), "0")
    values = {**_substitutes(), "COMPOSE_PROJECT_NAME": project, **ports, **variables}
    env_file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    compose = DockerCompose(
        ROOT, list(files), build=True, env_file=str(env_file), services=list(services)
    )
    try:
        with compose:
            yield ComposeStack(compose, project)
    finally:  # what the services depended on, and their volumes
        down = [*compose.docker_compose_command(), "down", "--volumes", "--remove-orphans"]
        subprocess.run(down, cwd=ROOT, check=True, timeout=_COMMAND_TIMEOUT_S)


def _substitutes() -> Mapping[str, str]:
    """Local images in place of those that cannot be pulled."""
    base = os.environ.get(LOCAL_BASE)
    if not base:
        return {}
    network = os.environ.get("BUILD_NETWORK", "default")
    names = {}
    for target in ("nats", "prometheus"):
        image = f"antiphon-test-{target}"
        options = ["--network", network, "--build-arg", f"BASE={base}", "--target", target]
        for secret, variable in (("pip", "PIP_CONF"), ("ca", "PIP_CA")):
            if path := os.environ.get(variable):
                options += ["--secret", f"id={secret},src={path}"]
        folder = str(ROOT / "tests/deploy/substitutes")
        command = ["docker", "buildx", "build", "--load", *options, "-t", image, folder]
        subprocess.run(command, check=True, capture_output=True, timeout=_BUILD_TIMEOUT_S)
        names[f"{target.upper()}_IMAGE"] = image
    return {"BASE": base, **names}
