"""A broker's metrics: its disk, the limits of its streams, who leads. Read at its monitoring port.

`python -m ttscommon.bus export` runs beside each broker of the chart.
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Gauge

from ttscommon.process.admin import AdminServer, Health

_TIMEOUT_S: Final = 3.0
_LOOK_S: Final = 5.0

log_ = structlog.get_logger(__name__)


class BrokerMetrics:
    """Gauges, as of the last look."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        gauge = self._gauge
        self.up = gauge("tts_broker_up", "Whether the broker answers its monitoring port (1 or 0).")
        self.storage = gauge(
            "tts_broker_storage_bytes", "What streams take of the broker's storage.", "state"
        )
        self.disk = gauge("tts_broker_disk_bytes", "The volume that streams lie on.", "state")
        self.stream = gauge("tts_broker_stream_bytes", "What a stream holds.", "stream", "state")
        self.leader = gauge(
            "tts_broker_leader", "Whether a stream, or the cluster (meta), has a leader.", "stream"
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def take(self, report: dict[str, Any]) -> None:
        """A report of the endpoint /jsz with accounts, streams and configurations."""
        self.storage.labels("used").set(report.get("storage", 0))
        self.storage.labels("limit").set(report.get("config", {}).get("max_storage", 0))
        self.stream.clear()
        self.leader.clear()
        if "meta_cluster" in report:
            self.leader.labels("meta").set(bool(report["meta_cluster"].get("leader")))
        for account in report.get("account_details", ()):
            for stream in account.get("stream_detail", ()):
                self._take_stream(stream)

    def _take_stream(self, stream: dict[str, Any]) -> None:
        name, limit = stream["name"], stream.get("config", {}).get("max_bytes", -1)
        self.stream.labels(name, "used").set(stream.get("state", {}).get("bytes", 0))
        if limit > 0:
            self.stream.labels(name, "limit").set(limit)
        if "cluster" in stream:
            self.leader.labels(name).set(bool(stream["cluster"].get("leader")))

    def take_disk(self, folder: Path) -> None:
        """The file system of the broker's store. Raises OSError."""
        found = os.statvfs(folder)
        self.disk.labels("free").set(found.f_bavail * found.f_frsize)
        self.disk.labels("size").set(found.f_blocks * found.f_frsize)


async def look(metrics: BrokerMetrics, monitor: str, folder: Path | None) -> None:
    """Ask the broker once. One that does not answer is down."""
    try:
        metrics.take(await asyncio.to_thread(_report, monitor))
        if folder is not None:
            metrics.take_disk(folder)
        metrics.up.set(1)
    except (OSError, ValueError) as error:
        metrics.up.set(0)
        log_.warning("broker.silent", error=str(error))


def _report(monitor: str) -> dict[str, Any]:
    address = f"{monitor}/jsz?accounts=true&streams=true&config=true"
    with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


async def export(monitor: str, folder: Path | None, port: int) -> None:
    """Serve the metrics of the broker at `monitor`, whose store is `folder`, for ever."""
    metrics = BrokerMetrics()
    server = AdminServer(Health, Health)
    server.registry = metrics.registry
    await server.start("0.0.0.0", port)
    while True:
        await look(metrics, monitor, folder)
        await asyncio.sleep(_LOOK_S)
