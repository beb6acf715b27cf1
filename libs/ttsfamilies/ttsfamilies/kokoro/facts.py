"""Kokoro: the half that makes sound is published within each checkpoint."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs

_KEYS: Final = {"istftnet", "plbert", "vocab"}


def _fits(signs: Signs) -> bool:
    if signs.config:
        return signs.config.keys() >= _KEYS
    return "predictor.module.duration_proj.linear_layer.weight" in signs.tensors()


FAMILY = FamilyFacts(
    name="kokoro",
    title="Kokoro",
    fits=_fits,
    codec=CodecFacts(
        package="ttsfamilies.kokoro.codec",
        name="kokoro",
        title="Kokoro's iSTFTNet",
        fits=_fits,
        sample_rate=24_000,
        frame_rate_hz=40.0,
        code="Apache-2.0",
        weights="Apache-2.0",
        inside=".",
    ),
    accepts=("speed",),
    code="Apache-2.0",
    weights="Apache-2.0",
    published=("hexgrad/Kokoro-82M",),
    files=("config.json", "*.safetensors", "*.pth", "voices/*.pt"),
)
