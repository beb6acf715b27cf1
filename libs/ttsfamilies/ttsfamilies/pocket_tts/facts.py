"""Pocket TTS: its codec, a Mimi without codebooks, is in the same file."""

from __future__ import annotations

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks
from ttsfamilies.pocket_tts.sizes import MODEL_TYPE

_MARKS = Marks((MODEL_TYPE,), ("flow_lm",), ("flow_lm.bos_emb",))


FAMILY = FamilyFacts(
    name="pocket_tts",
    title="Pocket TTS",
    fits=_MARKS,
    codec=CodecFacts(
        name="pocket_tts",
        title="Mimi of latents",
        fits=_MARKS,
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
