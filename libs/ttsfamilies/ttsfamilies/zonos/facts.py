"""Zonos v0.1: its codec, DAC at 44.1 kHz, is published by itself."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import Beside, CodecFacts, FamilyFacts, Marks

_SAMPLE_RATE: Final = 44_100
_FRAME_SAMPLES: Final = 512
_SPEAKER: Final = "Zyphra/Zonos-v0.1-speaker-embedding"
_DAC: Final = "descript/dac_44khz"


FAMILY = FamilyFacts(
    name="zonos",
    title="Zonos",
    fits=Marks(keys=("backbone", "prefix_conditioner")),
    codec=CodecFacts(
        name="dac",
        package="ttsfamilies.zonos.dac",
        title="DAC, 44.1 kHz",
        fits=Marks(("dac",)),
        sample_rate=_SAMPLE_RATE,
        frame_rate_hz=_SAMPLE_RATE / _FRAME_SAMPLES,
        code="MIT",
        weights="MIT",
        published=_DAC,
    ),
    accepts=(
        *("language", "ref_audio", "ref_text", "x_vector_only_mode", "speed"),
        *("temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"),
    ),
    code="Apache-2.0",
    weights="Apache-2.0",
    published=("Zyphra/Zonos-v0.1-transformer",),
    beside=(
        Beside("speaker", _SPEAKER, ("ResNet293_SimAM_ASP_base.pt",), needed=False),
        Beside("lda", _SPEAKER, ("ResNet293_SimAM_ASP_base_LDA-128.pt",), needed=False),
        Beside("dac", _DAC, ("config.json", "model.safetensors"), needed=False),
    ),
)
