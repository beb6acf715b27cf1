"""Step-Audio 2 mini: an answer to speech or text; its codec in a folder of its checkpoint."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Marks
from ttsfamilies.cosyvoice.facts import CONVDIT, FLOW, HIFT

FAMILY: Final = FamilyFacts(
    name="step_audio2",
    title="Step-Audio 2 mini",
    fits=Marks(("step_audio_2",), tensors=("adapter.linear1.weight",)),
    codec=CodecFacts(
        name="step_audio2",
        title="Step-Audio 2's flow and HiFT",
        fits=Marks(tensors=(CONVDIT,)),
        sample_rate=24_000,
        frame_rate_hz=25.0,
        code="Apache-2.0",
        weights="Apache-2.0",
        inside="token2wav",
        prefixes=(*FLOW, *HIFT),
    ),
    accepts=(
        *("instructions", "ref_audio", "speech", "turns"),
        *("temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"),
    ),
    code="Apache-2.0",
    weights="Apache-2.0",
    published=("stepfun-ai/Step-Audio-2-mini",),
    files=(
        *("*.json", "*.txt", "*.safetensors", "token2wav/*.safetensors*"),
        *("token2wav/flow.pt", "token2wav/hift.pt", "token2wav/campplus.onnx"),
        "token2wav/speech_tokenizer_v2_25hz.onnx",
    ),
)
