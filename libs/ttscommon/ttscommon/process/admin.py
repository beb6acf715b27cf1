"""The admin port: /livez, /readyz and /metrics over a minimal HTTP/1.1 server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

# A process is as well connected as the worst of its connections.
_LEAST: Final = ("tts_bus_up", "tts_store_up")


class Merged(Collector):
    """Metrics of several registries as one: series differ in their stage or model.

    The few that name none, such as the process's, are the same in all `registries`; the first one's
    count. Those of other processes, as `elsewhere` gives them, come on top: what is counted adds
    up, and of a gauge the larger value counts, or the smaller where it says whether all is well.
    """

    def __init__(self) -> None:
        self.registries: list[CollectorRegistry] = []
        self.elsewhere: list[Callable[[], Sequence[Metric]]] = []

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for registry in self.registries:
            for family in registry.collect():
                known = families.setdefault(family.name, family)
                series = {_series(sample) for sample in known.samples}
                known.samples += [one for one in family.samples if _series(one) not in series]
        for collect in self.elsewhere:
            for family in collect():
                _add(families.setdefault(family.name, _empty(family)), family)
        return families.values()


def _series(sample: Sample) -> tuple[str, ...]:
    return (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items())))


def _empty(family: Metric) -> Metric:
    return Metric(family.name, family.documentation, family.type, family.unit)


def _add(known: Metric, other: Metric) -> None:
    """Have `known` hold the samples of both."""
    series = {_series(sample): sample for sample in known.samples}
    for sample in other.samples:
        before = series.get(_series(sample))
        value = sample.value if before is None else _both(other)((before.value, sample.value))
        series[_series(sample)] = sample._replace(value=value)
    known.samples = list(series.values())


def _both(family: Metric) -> Callable[[Iterable[float]], float]:
    """What several processes' values make: memory and files add up, the beginning does not."""
    adds_up = family.name.startswith("process_") and "start_time" not in family.name
    if family.type != "gauge" or adds_up:
        return sum
    return min if family.name in _LEAST else max


_MAX_HEAD_BYTES: Final = 8192
# To hear a question, and to send an answer; how long a large page is written, the machine says.
_TIMEOUT_S: Final = 5.0
# About half a millisecond of a page's writing, and what the event loop gets between two of them.
_SAMPLES_A_TURN: Final = 100
_PAUSE_S: Final = 0.0005


@dataclass(frozen=True)
class Health:
    """The answer of a probe; `problems` says in words what is wrong."""

    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


Probe = Callable[[], Health]


class AdminServer:
    """Serves the probes and the metrics; answers from the service's own event loop on purpose.

    A loop that hangs cannot answer, and that is exactly what a probe must notice. Pages of metrics
    are written in a thread, a family at a time: with a thousand keys that takes long enough for
    listeners to notice.
    """

    def __init__(self, live: Probe, ready: Probe) -> None:
        self.registry = CollectorRegistry()
        self._probes = {"/livez": live, "/readyz": ready}
        self._server: asyncio.Server | None = None
        self._scraping = asyncio.Lock()

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the bound port; raises OSError when the port is taken."""
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=_MAX_HEAD_BYTES, start_serving=True
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            answer = await self._answer(head)
            async with asyncio.timeout(_TIMEOUT_S):
                writer.write(answer)
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        first, *fields = head.decode("latin-1").split("\r\n")
        request_line = first.split(" ")
        if len(request_line) != 3:
            return _response(HTTPStatus.BAD_REQUEST, "text/plain", b"bad request\n")
        method, target, _ = request_line
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"GET only\n")
        status, content_type, body = await self._page(target.split("?", 1)[0], _accepted(fields))
        return _response(status, content_type, body, head_only=method == "HEAD")

    async def _page(self, path: str, accepted: str) -> tuple[HTTPStatus, str, bytes]:
        if path == "/metrics":
            # Exemplars exist in OpenMetrics alone, which Prometheus asks for.
            encode, content_type = choose_encoder(accepted)
            async with self._scraping:  # one thread at a time
                body = await asyncio.to_thread(encode, _Considerate(self.registry))
            return HTTPStatus.OK, content_type, body
        probe = self._probes.get(path)
        if probe is None:
            return HTTPStatus.NOT_FOUND, "text/plain", b"/livez /readyz /metrics\n"
        health = probe()
        status = HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE
        body = json.dumps({"ok": health.ok, "problems": health.problems}).encode() + b"\n"
        return status, "application/json", body


class _Considerate:
    """A registry to be written in a thread, which lets the event loop's thread in now and then."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            calm = copy(family)
            calm.samples = _Pausing(family.samples)
            yield calm


class _Pausing(list[Sample]):
    """Samples that release the interpreter's lock every few of them."""

    def __iter__(self) -> Iterator[Sample]:
        for number, sample in enumerate(super().__iter__()):
            if number % _SAMPLES_A_TURN == 0:
                time.sleep(_PAUSE_S)
            yield sample


def _accepted(fields: list[str]) -> str:
    """The value of the header Accept, empty if there is none."""
    for field in fields:
        name, _, value = field.partition(":")
        if name.lower() == "accept":
            return value.strip()
    return ""


def _response(
    status: HTTPStatus, content_type: str, body: bytes, *, head_only: bool = False
) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if head_only else body)
