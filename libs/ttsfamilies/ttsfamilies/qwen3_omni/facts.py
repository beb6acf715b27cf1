"""Qwen3-Omni: its talker and its codec, code2wav, in the thinker's checkpoint."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks

_SAMPLING: Final = ("temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens")
_KIND: Final = ("qwen3_omni_moe",)


FAMILY: Final = FamilyFacts(
    name="qwen3_omni",
    title="Qwen3-Omni",
    fits=Marks(_KIND, tensors=("talker.hidden_projection.linear_fc1.weight",)),
    codec=CodecFacts(
        name="qwen3_omni",
        title="Qwen3-Omni code2wav",
        fits=Marks(_KIND, tensors=("code2wav.code_embedding.weight",)),
        sample_rate=24_000,
        frame_rate_hz=12.5,
        code="Apache-2.0",
        weights="Apache-2.0",
        inside=".",
        prefixes=("code2wav.",),
        config="code2wav_config",
    ),
    accepts=(
        *("instructions", *_SAMPLING),
        *(f"subtalker_{name}" for name in _SAMPLING[:3]),
    ),
    code="Apache-2.0",
    weights="Apache-2.0",
    published=("Qwen/Qwen3-Omni-30B-A3B-Instruct",),
)
