"""Orpheus: a Llama 3.2 with seven codebooks in its vocabulary; its codec is published by itself."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks, Signs

# The last audio id; a Llama without audio has 128,256 ids.
_LAST_AUDIO: Final = 156_937


def _talks(signs: Signs) -> bool:
    ids = signs.config.get("vocab_size", 0)
    return signs.config.get("model_type") == "llama" and isinstance(ids, int) and ids > _LAST_AUDIO


FAMILY = FamilyFacts(
    name="orpheus",
    title="Orpheus",
    fits=_talks,
    codec=CodecFacts(
        name="snac",
        package="ttsfamilies.orpheus",
        title="SNAC, 24 kHz",
        fits=Marks(keys=("vq_strides", "decoder_rates", "codebook_size")),
        sample_rate=24_000,
        frame_rate_hz=24_000 / 2048,
        code="MIT",
        weights="MIT",
        published="hubertsiuzdak/snac_24khz",
        files=("config.json", "*.safetensors", "pytorch_model.bin"),
    ),
    accepts=("temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"),
    code="Apache-2.0",
    weights="Llama 3.2 (built with Llama)",
    published=("canopylabs/orpheus-3b-0.1-ft",),
)
