"""CSM: its codec, Mimi, is published within each checkpoint, and by itself."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks

_SAMPLING: Final = ("temperature", "top_k", "top_p")


FAMILY = FamilyFacts(
    name="csm",
    title="CSM",
    fits=Marks(("csm",), tensors=("depth_decoder.codebooks_head.weight",)),
    codec=CodecFacts(
        name="mimi",
        package="ttsfamilies.csm.mimi",
        title="Mimi",
        fits=Marks(("mimi",), tensors=("upsample.conv.weight",)),
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
