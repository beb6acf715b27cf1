"""CSM: its codec, Mimi, is published within each checkpoint, and by itself."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs

_SAMPLING: Final = ("temperature", "top_k", "top_p")


def _talks(signs: Signs) -> bool:
    if signs.config:
        return signs.config.get("model_type") == "csm"
    return "depth_decoder.codebooks_head.weight" in signs.tensors()


def _sounds(signs: Signs) -> bool:
    if signs.config:
        return signs.config.get("model_type") == "mimi"
    return "upsample.conv.weight" in signs.tensors()


FAMILY = FamilyFacts(
    name="csm",
    title="CSM",
    fits=_talks,
    codec=CodecFacts(
        name="mimi",
        package="ttsfamilies.csm.mimi",
        title="Mimi",
        fits=_sounds,
        sample_rate=24_000,
        frame_rate_hz=12.5,
        code="MIT",
        weights="CC-BY-4.0",
        inside=".",
        prefixes=("codec_model.",),
        config="codec_config",
        published="kyutai/mimi",
    ),
    accepts=(
        *(
            "ref_audio",
            "ref_text",
            "turns",
            "speaker",
            *_SAMPLING,
            *(f"subtalker_{name}" for name in _SAMPLING),
        ),
        "max_new_tokens",
    ),
    code="Apache-2.0",
    weights="Apache-2.0 (gated)",
    published=("sesame/csm-1b",),
    files=("*.json", "model*.safetensors", "transformers*.safetensors"),
)
