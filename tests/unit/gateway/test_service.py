"""What autoscaling is told of the workers' capacity."""

from gateway.service import export_capacity
from tests.unit.ttscommon.cluster.admission.test_capacity import talker, vocoder
from ttscommon.cluster.admission.capacity import View, realtime_streams
from ttscommon.process.metrics import GatewayMetrics


def exported(metrics: GatewayMetrics, stage: str) -> float | None:
    labels = {"stage": stage, "model": "vesper"}
    return metrics.registry.get_sample_value("tts_capacity_streams", labels)


def test_slow_steps_count_in_place_of_slots() -> None:
    metrics = GatewayMetrics()
    views = [("vesper", View((talker(), talker()), (vocoder(),), 0, 25.0))]
    export_capacity(metrics, lambda: views, 0.85)()
    assert exported(metrics, "talker") == 2 * realtime_streams(talker(), 25.0, 0.85) < 64
    assert exported(metrics, "vocoder") == realtime_streams(vocoder(), 25.0, 0.85)


def test_a_model_without_talkers_is_not_exported_any_more() -> None:
    metrics = GatewayMetrics()
    views = [("vesper", View((talker(),), (vocoder(),), 0, 25.0))]
    export = export_capacity(metrics, lambda: views, 0.85)
    export()
    views.clear()
    export()
    assert exported(metrics, "talker") is None
