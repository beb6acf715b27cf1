"""Piper: VITS voices in ONNX files, each with its own generator, at 22,050 or 16,000 Hz."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks

_MARKS: Final = Marks(keys=("phoneme_id_map", "audio"))
_HOP: Final = 256
_SAMPLE_RATE: Final = 22_050


FAMILY = FamilyFacts(
    name="piper",
    title="Piper",
    fits=_MARKS,
    codec=CodecFacts(
        name="piper",
        title="Piper's generator (HiFi-GAN)",
        fits=_MARKS,
        sample_rate=_SAMPLE_RATE,
        frame_rate_hz=_SAMPLE_RATE / _HOP,
        code="Apache-2.0",
        weights="each voice's own",
        inside=".",
    ),
    accepts=("speed",),
    code="Apache-2.0",
    weights="each voice's own (CC0 to non-commercial)",
    files=("*.onnx", "*.onnx.json"),
    recognised_by=("*.onnx", "*.onnx.json"),
)
