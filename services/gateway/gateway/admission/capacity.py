"""The number of streams that workers believe that they keep up with, for autoscaling."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ttscommon.cluster.admission.capacity import View, expected
from ttscommon.process.metrics import GatewayMetrics

Views = Callable[[], Iterable[tuple[str, View]]]


def export_capacity(
    metrics: GatewayMetrics, views: Views, utilisation: float
) -> Callable[[], None]:
    """What to call now and then, so that `tts_capacity_streams` says what `views` are worth."""
    shown: set[tuple[str, str]] = set()

    def export() -> None:
        found = dict(_capacities(views(), utilisation))
        for labels, streams in found.items():
            metrics.capacity.labels(*labels).set(streams)
        for labels in shown - found.keys():
            metrics.capacity.remove(*labels)
        shown.clear()
        shown.update(found)

    return export


def _capacities(
    views: Iterable[tuple[str, View]], utilisation: float
) -> Iterable[tuple[tuple[str, str], int]]:
    for model, view in views:
        for name, stage in zip(("talker", "vocoder"), view.stages, strict=True):
            yield (name, model), expected(stage, view.frame_rate_hz, utilisation)
