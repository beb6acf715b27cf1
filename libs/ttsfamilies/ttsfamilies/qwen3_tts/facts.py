"""Qwen3-TTS (12 Hz): the codec is published within each checkpoint."""

from __future__ import annotations

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks

_SAMPLING = ("temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens")
_CODEC_TYPE = "qwen3_tts_tokenizer_12hz"


FAMILY = FamilyFacts(
    name="qwen3_tts",
    title="Qwen3-TTS",
    fits=Marks(("qwen3_tts",), tensors=("talker.model.codec_embedding.weight",)),
    codec=CodecFacts(
        package="ttsfamilies.qwen3_tts",
        name="qwen3_tts",
        title="Qwen3-TTS tokenizer, 12 Hz",
        fits=Marks((_CODEC_TYPE,), tensors=("decoder.quantizer.rvq_first.output_proj.weight",)),
        sample_rate=24_000,
        frame_rate_hz=12.5,
        code="Apache-2.0",
        weights="Apache-2.0",
        inside="speech_tokenizer",
    ),
    accepts=(
        *("adapter", "instructions", "language", "non_streaming_mode", "ref_audio", "ref_text"),
        "task_type",
        *("x_vector_only_mode", *_SAMPLING, *(f"subtalker_{name}" for name in _SAMPLING[:3])),
    ),
    code="Apache-2.0",
    weights="Apache-2.0",
    published=tuple(
        f"Qwen/Qwen3-TTS-12Hz-{kind}"
        for kind in (
            *("0.6B-CustomVoice", "0.6B-Base"),
            *("1.7B-CustomVoice", "1.7B-VoiceDesign", "1.7B-Base"),
        )
    ),
)
