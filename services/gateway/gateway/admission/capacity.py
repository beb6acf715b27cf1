"""The number of streams that workers believe that they keep up with, for autoscaling."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ttscommon.cluster.admission.capacity import View, cached_streams, realtime_streams
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.wire.replicas import Replica

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
        for stage, replicas in (("talker", view.talkers), ("vocoder", view.vocoders)):
            streams = sum(_streams(one, view.frame_rate_hz, utilisation) for one in replicas)
            yield (stage, model), streams


def _streams(replica: Replica, frame_rate_hz: float, utilisation: float) -> int:
    realtime = realtime_streams(replica, frame_rate_hz, utilisation)
    return min(realtime, cached_streams(replica)) if replica.stage == "talker" else realtime
