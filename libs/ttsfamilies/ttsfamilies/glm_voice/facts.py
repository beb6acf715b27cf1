"""GLM-4-Voice: three published folders, of which two lie within the first under their own names."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import Beside, CodecFacts, FamilyFacts, Marks
from ttsfamilies.cosyvoice.facts import HIFT, OLDER

_DECODER: Final = "glm-4-voice-decoder"
# What names of the flow's tensors begin with.
FLOW: Final = (
    *("input_embedding.", "spk_embed_affine_layer.", "encoder.", "encoder_proj.", "decoder."),
    "length_regulator.",
)


FAMILY = FamilyFacts(
    name="glm_voice",
    title="GLM-4-Voice",
    fits=Marks(("chatglm",)),
    codec=CodecFacts(
        package="ttsfamilies.glm_voice",
        name="glm_voice",
        title="GLM-4-Voice's flow and HiFT",
        fits=Marks(tensors=(OLDER,)),
        sample_rate=22_050,
        frame_rate_hz=12.5,
        code="Apache-2.0",
        weights="GLM-4's own licence",
        inside=_DECODER,
        prefixes=(*FLOW, *HIFT),
    ),
    accepts=(
        *("speech", "turns", "instructions"),
        *("temperature", "top_k", "top_p", "max_new_tokens"),
    ),
    code="Apache-2.0",
    weights="GLM-4's own licence",
    published=("THUDM/glm-4-voice-9b",),
    files=("*.json", "*.safetensors", "tokenizer.model"),
    beside=(
        Beside("glm-4-voice-tokenizer", "THUDM/glm-4-voice-tokenizer", ("*.json", "*.safetensors")),
        Beside(_DECODER, f"THUDM/{_DECODER}", ("flow.pt", "hift.pt")),
    ),
)
