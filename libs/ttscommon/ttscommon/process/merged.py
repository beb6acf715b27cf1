"""Several registries of metrics as one page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
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
