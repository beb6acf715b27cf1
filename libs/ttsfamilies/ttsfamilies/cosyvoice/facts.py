"""CosyVoice 2 and Fun-CosyVoice 3: one folder for both stages (streaming-flow)."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs

# What names of the codec's tensors begin with. HiFT may be published as trained, within a pair.
FLOW: Final = (
    *("input_embedding.", "spk_embed_affine_layer.", "encoder.", "encoder_proj."),
    *("pre_lookahead_layer.", "decoder."),
)
HIFT: Final = (
    *("f0_predictor.", "m_source.", "conv_p", "ups.", "source_", "resblocks.", "generator."),
)
# Other families say who they are. Of codecs, GLM-4-Voice's flow, which is of the version before,
# has a regulator of lengths, and Step-Audio 2's has another estimator.
_NAMED: Final = ("model_type", "family", "architecture")
OLDER: Final = "length_regulator.model.0.weight"
CONVDIT: Final = "decoder.estimator.t_embedder.mlp.0.weight"


def _talks(signs: Signs) -> bool:
    return _says(signs, "llm_decoder.weight")


def _sounds(signs: Signs) -> bool:
    others = (OLDER, CONVDIT)
    return _says(signs, "spk_embed_affine_layer.weight") and signs.tensors().isdisjoint(others)


def _says(signs: Signs, tensor: str) -> bool:
    return not any(key in signs.config for key in _NAMED) and tensor in signs.tensors()


FAMILY = FamilyFacts(
    name="cosyvoice",
    title="CosyVoice 2 and 3",
    fits=_talks,
    codec=CodecFacts(
        name="cosyvoice",
        title="CosyVoice's flow and HiFT",
        fits=_sounds,
        sample_rate=24_000,
        frame_rate_hz=25.0,
        code="Apache-2.0",
        weights="Apache-2.0",
        inside=".",
        prefixes=(*FLOW, *HIFT),
    ),
    accepts=(
        *("instructions", "non_streaming_mode", "ref_audio", "ref_text", "x_vector_only_mode"),
        *("temperature", "top_k", "top_p", "max_new_tokens"),
    ),
    code="Apache-2.0",
    weights="Apache-2.0",
    published=("FunAudioLLM/CosyVoice2-0.5B", "FunAudioLLM/Fun-CosyVoice3-0.5B-2512"),
    files=(
        *("*.safetensors", "*.safetensors.index.json", "llm.pt", "flow.pt", "hift.pt"),
        *("campplus.onnx", "speech_tokenizer_v[23].onnx"),
        *("CosyVoice-BlankEN/*.json", "CosyVoice-BlankEN/merges.txt"),
    ),
    recognised_by=("llm.pt", "flow.pt", "hift.pt"),
)
