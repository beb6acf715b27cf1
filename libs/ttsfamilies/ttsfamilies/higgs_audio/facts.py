"""Higgs Audio, both versions: one codec, which is published by itself."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks, Signs

_THIRD: Final = "higgs_multimodal_qwen3"
_AUTHORS_KEYS: Final = {"ratios", "bins", "n_q"}
_CODEC: Final = "higgs_audio_v2_tokenizer"


def _sounds(signs: Signs) -> bool:
    kind = signs.config.get("model_type")
    return kind in (_CODEC, _THIRD) or (not kind and signs.config.keys() >= _AUTHORS_KEYS)


FAMILY: Final = FamilyFacts(
    name="higgs_audio",
    title="Higgs Audio",
    fits=Marks(("higgs_audio_v2", "higgs_audio", _THIRD)),
    codec=CodecFacts(
        name="higgs_audio",
        title="Higgs Audio v2 tokenizer",
        fits=_sounds,
        sample_rate=24_000,
        frame_rate_hz=25.0,
        code="Apache-2.0",
        weights="Boson's community licence",
        published="bosonai/higgs-audio-v2-tokenizer",
        files=("config.json", "*.safetensors", "model.pth"),
    ),
    accepts=(
        *("instructions", "ref_audio", "ref_text", "turns", "speaker"),
        *("temperature", "top_k", "top_p", "max_new_tokens"),
    ),
    code="Apache-2.0",
    weights="v2: Boson's community licence; v3: research and non-commercial use only",
    published=("bosonai/higgs-audio-v2-generation-3B-base", "bosonai/higgs-audio-v3-tts-4b"),
)
