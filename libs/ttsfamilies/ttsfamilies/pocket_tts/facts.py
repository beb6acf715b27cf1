"""Pocket TTS: its codec, a Mimi without codebooks, is in the same file."""

from __future__ import annotations

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs
from ttsfamilies.pocket_tts.sizes import MODEL_TYPE


def _fits(signs: Signs) -> bool:
    if signs.config:
        return signs.config.get("model_type") == MODEL_TYPE and "flow_lm" in signs.config
    return "flow_lm.bos_emb" in signs.tensors()


FAMILY = FamilyFacts(
    name="pocket_tts",
    title="Pocket TTS",
    fits=_fits,
    codec=CodecFacts(
        name="pocket_tts",
        title="Mimi of latents",
        fits=_fits,
        sample_rate=24_000,
        frame_rate_hz=12.5,
        code="MIT",
        weights="CC-BY-4.0",
        inside=".",
    ),
    accepts=("ref_audio", "temperature", "max_new_tokens"),
    code="MIT",
    weights="CC-BY-4.0 (gated with cloning); each voice its own",
    published=tuple(
        f"kyutai/{name}/languages/english"
        for name in ("pocket-tts", "pocket-tts-without-voice-cloning")
    ),
)
