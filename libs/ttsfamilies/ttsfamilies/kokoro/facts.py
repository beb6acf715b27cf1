"""Kokoro: the half that makes sound is published within each checkpoint."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks

_MARKS: Final = Marks(
    keys=("istftnet", "plbert", "vocab"),
    tensors=("predictor.module.duration_proj.linear_layer.weight",),
)


FAMILY = FamilyFacts(
    name="kokoro",
    title="Kokoro",
    fits=_MARKS,
    codec=CodecFacts(
        package="ttsfamilies.kokoro",
        name="kokoro",
        title="Kokoro's iSTFTNet",
        fits=_MARKS,
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
