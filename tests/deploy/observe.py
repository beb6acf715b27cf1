"""Run every dashboard's queries against a real Prometheus under load, and draw what came of it.

    python -m tests.deploy.observe [--out docs/images] [--engine torch]

A stack of two engines a stage serves a bench whose load rises beyond what there is room for; in
the middle a talker and a vocoder are killed. Needs Prometheus (Debian: apt-get install prometheus).
"""

import argparse
import asyncio
import contextlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, cast

import httpx
import matplotlib.pyplot as plt
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.child import Child, Command, Ports
from antiphon.stack.local import Engine
from antiphon_bench.config import Poisson, RunConfig, Target
from antiphon_bench.plots import LIGHT, style
from antiphon_bench.run import run
from tests.deploy.broker import free_ports
from tests.deploy.chart import CHART
from tools.dashboards import DASHBOARDS, Dashboard, Panel

SCRAPE_S: Final = 1
# What Grafana puts in: four scrapes, at least.
RATE_S: Final = 8
COLUMNS: Final = 3
# What only a model that drafts frames fills: the fake one does not.
OF_DRAFTS: Final = [
    "Antiphon: stages: Frames that a step gains a stream",
    "Antiphon: stages: Streams' steps by the frames that they try",
]
# What only a codec whose streams' states grow fills.
OF_STATES: Final = [
    "Antiphon: stages: Memory for what a codec's streams carry",
    "Antiphon: stages: Stretches computed again, for want of that memory",
]
# What the exporter beside a broker of the chart tells.
OF_BROKERS: Final = [
    "Antiphon: recovery: The broker's disk",
    "Antiphon: recovery: Streams of the broker, of what they may hold",
]
_VARIABLES: Final = {
    "$namespace": ".*",
    "$model": ".*",
    "$tenant": ".*",
    "$stage": ".*",
    "$__rate_interval": f"{RATE_S}s",
}


@dataclass(frozen=True)
class Line:
    """One series of a panel: seconds since the start, and values."""

    legend: str
    times: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True)
class PrometheusProgram:
    """Prometheus on a free port, over the processes of a stack."""

    folder: Path
    targets: dict[str, int]
    port: int
    name: str = "prometheus"

    def command(self, ports: Ports) -> Command:
        path = self.folder / "prometheus.yaml"
        path.write_text(json.dumps(self._configuration()))
        program = shutil.which("prometheus")
        if program is None:
            raise FileNotFoundError("prometheus is not installed")
        data = f"--storage.tsdb.path={self.folder}/data"
        listen = f"--web.listen-address=127.0.0.1:{self.port}"
        return Command((program, f"--config.file={path}", data, listen), {})

    def bound(self, pid: int) -> Ports | None:
        try:
            ready = httpx.get(f"http://127.0.0.1:{self.port}/-/ready", timeout=1).is_success
        except httpx.HTTPError:
            return None
        return {"http": self.port} if ready else None

    def _configuration(self) -> dict[str, Any]:
        processes = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"service": name.split("-")[0]}}
            for name, port in self.targets.items()
        ]
        return {
            "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
            "rule_files": [str(CHART / "alerts/antiphon.yaml")],
            "scrape_configs": [{"job_name": "antiphon", "static_configs": processes}],
        }


async def observe(engine: Engine, rates: Sequence[float], step_s: float) -> dict[str, list[Line]]:
    """What each panel shows of a run, by dashboard and title."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = StackConfig(port=0, engine=engine, talkers=2, vocoders=2, store=folder / "store")
        local = await stack.enter_async_context(LocalStack(config))
        ports = {n: c.ports["admin"] for n, c in local.children.items() if "admin" in c.ports}
        program = PrometheusProgram(folder, ports, free_ports(1)[0])
        prometheus = Child(program, lambda name, line: None)
        supervision = asyncio.create_task(prometheus.supervise())
        try:
            await asyncio.wait_for(prometheus.ready.wait(), 60)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{program.port}") as client:
                began_s = await _now_s(client)
                leaving = asyncio.create_task(_leave(local.url))
                await _order(local.url)
                await _load(local, rates, step_s, folder)
                leaving.cancel()
                await asyncio.sleep(3 * SCRAPE_S)
                return await _answers(client, began_s)
        finally:
            await prometheus.stop(5)
            await supervision


async def _load(local: LocalStack, rates: Sequence[float], step_s: float, folder: Path) -> None:
    """Each rate for `step_s`; a talker and a vocoder die in the middle of the second one."""
    for number, rate in enumerate(rates):
        config = RunConfig(
            target=Target(url=local.url, protocol="ws"),
            arrivals=Poisson(rate=rate),
            texts="mixed",
            warmup_s=0.0,
            duration_s=step_s,
            out=folder / f"bench-{number}",
        )
        bench = asyncio.create_task(asyncio.to_thread(run, config))
        if number == 1:
            await asyncio.sleep(step_s / 2)
            for victim in ("talker-1", "vocoder-2"):
                local.children[victim].kill()
        await bench


async def _leave(url: str) -> None:
    """Clients that leave in mid-speech: one for good, one that may come back."""
    while True:
        for resumable in (False, True):
            address = url.replace("http", "ws") + "/v1/audio/speech/stream"
            with contextlib.suppress(WebSocketException):
                async with connect(address) as socket:
                    await _send(socket, type="session.config", resumable=resumable)
                    await _send(socket, type="input.text", text="The tide is coming in. " * 5)
                    await _send(socket, type="input.done")
                    async for message in socket:
                        if isinstance(message, bytes):
                            break
                    if resumable:  # a broken connection may come back, a closed one does not
                        socket.transport.abort()
            await asyncio.sleep(1.0)


async def _order(url: str) -> None:
    """A job of a few minutes, which gives way to the load."""
    paragraph = "The tide is coming in, and the boats along the quay begin to lift and turn."
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        body = {"input": "\n\n".join([paragraph] * 60)}
        (await client.post("/v1/audio/jobs", json=body)).raise_for_status()


async def _send(socket: ClientConnection, **message: object) -> None:
    await socket.send(json.dumps(message))


async def _answers(client: httpx.AsyncClient, began_s: float) -> dict[str, list[Line]]:
    now_s = await _now_s(client)
    found = {}
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            lines: list[Line] = []
            for legend, query in panel.queries.items():
                lines += await _lines(client, legend, query, began_s, now_s)
            found[f"{dashboard.title}: {panel.title}"] = lines
    return found


async def _lines(
    client: httpx.AsyncClient, legend: str, query: str, began_s: float, now_s: float
) -> list[Line]:
    parameters: dict[str, str | float] = {
        "query": filled(query),
        "start": began_s,
        "end": now_s,
        "step": SCRAPE_S,
    }
    response = await client.get("/api/v1/query_range", params=parameters, timeout=30)
    response.raise_for_status()
    return [
        Line(
            _legend(legend, series["metric"]),
            [float(time) - began_s for time, _ in series["values"]],
            [float(value) for _, value in series["values"]],
        )
        for series in response.json()["data"]["result"]
    ]


def filled(query: str) -> str:
    """The query with what Grafana puts in for its variables."""
    for variable, value in _VARIABLES.items():
        query = query.replace(variable, value)
    return query


def _legend(text: str, labels: dict[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda name: labels.get(name[1], "") or f"(no {name[1]})", text)


async def _now_s(client: httpx.AsyncClient) -> float:
    response = await client.get("/api/v1/query", params={"query": "time()"})
    return float(response.json()["data"]["result"][1])


def draw(dashboard: Dashboard, found: dict[str, list[Line]], path: Path) -> None:
    """The dashboard as a picture."""
    rows = -(-len(dashboard.panels) // COLUMNS)
    path.parent.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(cast(Any, style(LIGHT))):
        figure, axes = plt.subplots(rows, COLUMNS, figsize=(16, 3.1 * rows), squeeze=False)
        for axis in axes.flat[len(dashboard.panels) :]:
            axis.axis("off")
        for axis, panel in zip(axes.flat, dashboard.panels, strict=False):
            _draw_panel(axis, panel, found[f"{dashboard.title}: {panel.title}"])
        figure.suptitle(dashboard.title)
        figure.savefig(path, dpi=80)
        plt.close(figure)


def _draw_panel(axis: Any, panel: Panel, lines: Sequence[Line]) -> None:
    for line in lines:
        axis.plot(line.times, line.values, label=line.legend, linewidth=1.4)
    # Three stand in a row: a longer title would be written over its neighbour's.
    axis.set_title(shorten(panel.title, 56, placeholder=" ..."), fontsize=10)
    axis.set_ylabel({"s": "s", "reqps": "1/s", "ops": "1/s"}.get(panel.unit, ""))
    axis.set_ylim(bottom=None if panel.title.startswith("Playback") else 0)
    if lines:
        axis.legend(fontsize=7, loc="best")
    else:
        axis.text(0.5, 0.5, "nothing to show in this run", ha="center", transform=axis.transAxes)
        axis.set(xticks=[], yticks=[])


def empty(found: dict[str, list[Line]]) -> list[str]:
    """Panels without a single finite value."""
    return [
        panel
        for panel, lines in found.items()
        if not any(value == value for line in lines for value in line.values)
    ]


def main() -> int:
    """Returns the exit status: 1 if a panel shows nothing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--engine", choices=("torch", "fake"), default="torch")
    parser.add_argument("--rates", type=float, nargs="+", default=[2.0, 4.0, 30.0])
    parser.add_argument("--step-s", type=float, default=30.0)
    options = parser.parse_args()
    found = asyncio.run(observe(options.engine, options.rates, options.step_s))
    for dashboard in DASHBOARDS:
        name = dashboard.uid.removeprefix("antiphon-")
        draw(dashboard, found, options.out / f"dashboard-{name}.png")
    for panel in empty(found):
        print(f"shows nothing: {panel}")
    return bool(empty(found))


if __name__ == "__main__":
    sys.exit(main())
