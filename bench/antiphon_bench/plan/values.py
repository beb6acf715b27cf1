"""A planned fleet as values for the chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from antiphon_bench.plan.shapes import Setup, Shape


def chart_values(setup: Setup, shape: Shape, model: str) -> dict[str, Any]:
    """What differs from the chart's defaults. `model`: its name and its folder of weights."""
    talker, vocoder, gateway = setup.talker, setup.vocoder, setup.gateway
    return {
        "nats": {"replicas": shape.brokers},
        "gateway": {
            "replicas": shape.gateways,
            "settings": {
                "ttfp_target_s": gateway.ttfp_target_s,
                "utilisation": gateway.utilisation,
                "max_streams": gateway.max_streams,
            },
        },
        "models": [
            {
                "name": model,
                "weights": {"path": model},
                "talker": {
                    "replicas": shape.talkers,
                    "settings": {
                        "slots": talker.slots,
                        "batch_streams": talker.limits.streams,
                        "batch_positions": talker.limits.positions,
                    },
                },
                "vocoder": {
                    "replicas": shape.vocoders,
                    "settings": {
                        "slots": vocoder.slots,
                        "batch_streams": vocoder.limits.streams,
                        "batch_frames": vocoder.limits.frames,
                        "step_frames": vocoder.limits.stream_frames,
                    },
                },
            }
        ],
    }


def as_yaml(values: Mapping[str, Any]) -> str:
    """Mappings, lists, numbers and plain names, as people write them."""
    return "\n".join(_lines(values, 0)) + "\n"


def _lines(value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield f"{pad}{name}:"
            yield from _lines(inner, depth + 1)
        elif isinstance(inner, list):
            yield f"{pad}{name}:"
            for one in inner:
                first, *rest = _lines(one, depth + 2)
                yield f"{pad}  - {first.strip()}"
                yield from rest
        else:
            yield f"{pad}{name}: {inner}"
