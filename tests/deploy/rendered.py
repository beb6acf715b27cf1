"""The pods of a rendering as processes of this machine: their configuration, environment, secrets.

Only what a cluster gives differs here: addresses, ports and the broker's folder.
"""

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.stack.broker import BrokerProgram, Credentials, find_server
from antiphon.stack.child import Child, Command, Ports, inherited
from antiphon.stack.local import ServiceProgram
from tests.deploy.chart import Object, environment, jobs, named, of_kind, pods, render

Secrets = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class RenderedBroker:
    """nats-server with the configuration of the rendering's ConfigMap."""

    folder: Path
    environ: Mapping[str, str]
    name: str = "broker"

    def command(self, ports: Ports) -> Command:
        port = str(ports.get("nats", -1))
        here = ["--addr", "127.0.0.1", "--port", port, "--http_port", "-1"]
        files = ["--config", f"{self.folder}/nats.conf", "--ports_file_dir", str(self.folder)]
        return Command((find_server(), *files, *here), self.environ)

    def bound(self, pid: int) -> Ports | None:
        return BrokerProgram(self.name, self.folder, Credentials()).bound(pid)


@dataclass
class RunningChart:
    """The rendering's pods, running. `log` holds every line that they wrote."""

    children: dict[str, Child] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    secrets: Secrets = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.children['gateway'].ports['http']}"

    @property
    def bus_url(self) -> str:
        return f"nats://127.0.0.1:{self.children['broker'].ports['nats']}"

    def password(self, user: str) -> str:
        return self.secrets["antiphon-bus"][user]


def decoded(objects: list[Object]) -> Secrets:
    """The rendering's secrets as a pod sees them."""
    return {
        secret["metadata"]["name"]: {
            key: base64.b64decode(value).decode() for key, value in secret["data"].items()
        }
        for secret in of_kind(objects, "Secret")
    }


@asynccontextmanager
async def running(
    values: Mapping[str, Any], folder: Path, *, services: bool = True
) -> AsyncIterator[RunningChart]:
    """Render `values` and run every pod once, and each engine as often as it has replicas.

    Without `services` the broker alone runs, prepared for them.
    """
    objects = render(values)
    found, chart = pods(objects), RunningChart(secrets=decoded(objects))

    def hear(name: str, line: str) -> None:
        chart.log.append(f"{name}: {line}")

    tasks = []
    try:
        broker = RenderedBroker(folder, environment(found.pop("antiphon-nats"), chart.secrets))
        for file, text in named(objects, "ConfigMap", "antiphon-nats")["data"].items():
            (folder / file).write_text(text.replace("/data", f"{folder}/data"))
        chart.children["broker"] = Child(broker, hear)
        tasks.append(asyncio.create_task(chart.children["broker"].supervise()))
        await asyncio.wait_for(chart.children["broker"].ready.wait(), 30)
        for job in jobs(objects):
            await run_once(job, chart)
        for program in programs(objects, found, chart, folder) if services else ():
            chart.children[program.name] = Child(program, hear)
            tasks.append(asyncio.create_task(chart.children[program.name].supervise()))
        for child in chart.children.values():
            await asyncio.wait_for(child.ready.wait(), 60)
        yield chart
    finally:
        for child in reversed(chart.children.values()):
            await child.stop(5.0)
        await asyncio.gather(*tasks, return_exceptions=True)
        print("\n".join(chart.log))


async def run_once(job: Object, chart: RunningChart) -> None:
    """A job's command, to its end."""
    environ = environment(job, chart.secrets) | {"ANTIPHON_BUS__URLS": chart.bus_url}
    command = job["spec"]["containers"][0]["command"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command[1:], env={**inherited(), **environ}
    )
    assert await asyncio.wait_for(process.wait(), 60) == 0


def programs(
    objects: list[Object], found: Mapping[str, Object], chart: RunningChart, folder: Path
) -> list[ServiceProgram]:
    """One program for each pod of the services."""
    listed = []
    for workload, pod in found.items():
        stage = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        environ = environment(pod, chart.secrets) | {"ANTIPHON_BUS__URLS": chart.bus_url}
        count = named(objects, "Deployment", workload)["spec"]["replicas"]
        if stage == "gateway":
            environ |= {"ANTIPHON_HOST": "127.0.0.1", "ANTIPHON_PORT": "0"}
        names = [stage] if count == 1 else [f"{stage}-{n}" for n in range(1, count + 1)]
        module = "antiphon.pair" if stage == "pair" else stage
        listed += [ServiceProgram(name, module, folder, environ) for name in names]
    return listed
