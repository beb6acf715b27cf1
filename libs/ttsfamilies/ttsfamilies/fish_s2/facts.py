"""Fish Audio S2: its codec lies beside its talker."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks

KIND: Final = "fish_qwen3_omni"
_MARKS: Final = Marks((KIND,))
_LICENCE: Final = "Fish Audio Research License: a contract for any hosted or commercial use"


FAMILY: Final = FamilyFacts(
    name="fish_s2",
    title="Fish Audio S2",
    fits=_MARKS,
    codec=CodecFacts(
        name="fish_s2",
        title="Fish Audio S2's codec",
        fits=_MARKS,
        sample_rate=44_100,
        frame_rate_hz=44_100 / 2048,
        code="Apache-2.0, written without the authors'",
        weights=_LICENCE,
        inside=".",
    ),
    accepts=("temperature", "top_k", "top_p", "max_new_tokens"),
    code="Apache-2.0, written without the authors'",
    weights=_LICENCE,
    published=("fishaudio/s2-pro",),
    files=("*.json", "*.txt", "*.safetensors", "codec.pth"),
)
"""The codec is published as `codec.pth`, which `antiphon convert` writes anew."""
