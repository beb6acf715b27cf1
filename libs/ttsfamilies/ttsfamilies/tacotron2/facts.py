"""Tacotron 2 with HiFi-GAN: a talker by NVIDIA's names and a generator in one folder."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs

_HOP: Final = 256
_SAMPLE_RATE: Final = 22_050
_SIGN: Final = "decoder.attention_layer.memory_layer.linear_layer.weight"


def _fits(signs: Signs) -> bool:
    return "upsample_initial_channel" in signs.config and _SIGN in signs.tensors()


FAMILY = FamilyFacts(
    name="tacotron2",
    title="Tacotron 2",
    fits=_fits,
    codec=CodecFacts(
        name="tacotron2",
        title="Tacotron 2's postnet and HiFi-GAN",
        fits=_fits,
        sample_rate=_SAMPLE_RATE,
        frame_rate_hz=_SAMPLE_RATE / _HOP,
        code="MIT",
        weights="each checkpoint's own",
        inside=".",
    ),
    accepts=("max_new_tokens",),
    code="BSD-3-Clause",
    weights="each checkpoint's own",
    files=("tacotron2*.pt", "generator*", "g_[0-9]*", "config*.json", "*.safetensors*"),
    recognised_by=("tacotron2*.pt", "[g]*", "config*.json"),
    renamed=(
        ("tacotron2*.pt", "tacotron2.pt"),
        ("generator*[!s]", "generator.pt"),
        ("g_[0-9]*", "generator.pt"),
        ("config_v[123].json", "config.json"),
    ),
)
