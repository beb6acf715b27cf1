"""Engines that tests turn by hand."""

from typing import Any

from ttscommon.engine.runtime import Runtime
from ttscommon.process.metrics import Metrics


def turn(engine: Runtime[Any, Any]) -> None:
    """One turn. A command comes with it, for a stream that is not there, so that an idle engine
    does not wait for one.
    """
    engine.cancel("none")
    engine.step()


def launches(metrics: Metrics, stage: str, path: str) -> float:
    """So many went this path: "graph" or "eager"."""
    labels = {"stage": stage, "path": path}
    return metrics.registry.get_sample_value("tts_launches_total", labels) or 0.0
