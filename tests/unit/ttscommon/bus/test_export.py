"""A broker's metrics, of a real broker."""

import socket
from pathlib import Path
from typing import Any

from ttscommon.bus.export import BrokerMetrics, look

REPORT: dict[str, Any] = {
    "storage": 90,
    "config": {"max_storage": 100},
    "meta_cluster": {"leader": ""},
    "account_details": [
        {
            "stream_detail": [
                {
                    "name": "antiphon-CODES",
                    "config": {"max_bytes": 50},
                    "state": {"bytes": 45},
                    "cluster": {"leader": "broker-2"},
                }
            ]
        }
    ],
}


def value(metrics: BrokerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_limits_and_lost_leaders_are_told() -> None:
    metrics = BrokerMetrics()
    metrics.take(REPORT)
    assert value(metrics, "tts_broker_storage_bytes", state="limit") == 100
    assert value(metrics, "tts_broker_stream_bytes", stream="antiphon-CODES", state="used") == 45
    assert value(metrics, "tts_broker_stream_bytes", stream="antiphon-CODES", state="limit") == 50
    assert value(metrics, "tts_broker_leader", stream="antiphon-CODES") == 1
    assert value(metrics, "tts_broker_leader", stream="meta") == 0


async def test_a_broker_that_does_not_answer_is_down(tmp_path: Path) -> None:
    metrics = BrokerMetrics()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        await look(metrics, f"http://127.0.0.1:{closed.getsockname()[1]}", tmp_path)
    assert value(metrics, "tts_broker_up") == 0
