"""Chatterbox: its codec, a flow over S3 tokens and HiFT, is published within each checkpoint."""

from __future__ import annotations

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks

FAMILY = FamilyFacts(
    name="chatterbox",
    title="Chatterbox",
    fits=Marks(("chatterbox",), tensors=("speech_emb.weight", "cond_enc.spkr_enc.weight")),
    codec=CodecFacts(
        name="chatterbox",
        title="S3Gen",
        fits=Marks(("chatterbox",), tensors=("speech_emb.weight", "cond_enc.spkr_enc.weight")),
        sample_rate=24_000,
        frame_rate_hz=25.0,
        code="MIT",
        weights="MIT",
        inside=".",
        prefixes=("flow.", "mel2wav.", "gen."),
        config="chunk_tokens",
    ),
    accepts=(
        *("ref_audio", "language", "temperature", "top_k", "top_p", "repetition_penalty"),
        "max_new_tokens",
    ),
    code="MIT",
    weights="MIT",
    published=("ResembleAI/chatterbox", "ResembleAI/chatterbox-turbo"),
    files=(
        *("t3_*.safetensors", "s3gen.*", "s3gen_meanflow.*", "ve.*", "conds.*"),
        *("*.json", "*.txt"),
    ),
    recognised_by=("t3_*.safetensors", "s3gen*", "ve.*"),
)
