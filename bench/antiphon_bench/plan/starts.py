"""Starts of a stack's processes: seconds from their beginning until they took work.

Without what they waited for a processor: the processes of a stack start all at once, and one that
is added to a fleet by itself.
"""

from __future__ import annotations

import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Iterator
from http.client import HTTPException
from typing import Final

import psutil
from prometheus_client.parser import text_string_to_metric_families

from antiphon_bench.processes import Served, stack_at

_METRIC: Final = "tts_startup_seconds"
_WAITED: Final = "tts_startup_waited_seconds"
_TIMEOUT_S: Final = 5.0


def starts(url: str) -> dict[str, float]:
    """Seconds by kind of process, of those that say so; of several the slowest. Raises NotHere."""
    pages = (page for served in stack_at(url) for page in _pages(served))
    return {kind: round(seconds, 2) for kind, seconds in slowest(pages).items()}


def slowest(pages: Iterable[str]) -> dict[str, float]:
    """Of pages of metrics, by stage: the longest sum of a start's parts, less what it waited."""
    found: dict[str, float] = {}
    for page in pages:
        for stage, seconds in _sums(page).items():
            found[stage] = max(found.get(stage, 0.0), seconds)
    return found


def _sums(page: str) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in (_METRIC, _WAITED):
                sign = 1 if sample.name == _METRIC else -1
                sums[sample.labels["stage"]] += sign * sample.value
    return sums


def _pages(served: Served) -> Iterator[str]:
    """Metrics at every port of a process; most listen at one that has none."""
    for port in sorted(_ports(served.process)):
        try:
            url = f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
                text = answer.read().decode()
        except (OSError, HTTPException, ValueError):
            continue
        yield text


def _ports(process: psutil.Process) -> set[int]:
    return {
        connection.laddr.port
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
