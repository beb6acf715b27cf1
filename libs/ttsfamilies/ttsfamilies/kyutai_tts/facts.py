"""Kyutai TTS: its codec, Mimi, is a file of its own beside the talker's."""

from __future__ import annotations

from ttsfamilies.base.facts import Beside, FamilyFacts, Marks
from ttsfamilies.csm import facts as csm

FAMILY = FamilyFacts(
    name="kyutai_tts",
    title="Kyutai TTS",
    fits=Marks(keys=("depformer_dim", "tts_config"), tensors=("depformer_in.0.weight",)),
    codec=csm.FAMILY.codec,
    accepts=("temperature", "top_k", "subtalker_temperature", "subtalker_top_k"),
    code="MIT",
    weights="CC-BY-4.0; each voice its own",
    published=("kyutai/tts-1.6b-en_fr",),
    # Of hundreds of voices those that the authors' own programs begin with.
    beside=(
        Beside(
            "voices",
            "kyutai/tts-voices",
            ("expresso/ex03-ex01_*_channel1_*.1e68beda@240.safetensors",),
        ),
    ),
)
