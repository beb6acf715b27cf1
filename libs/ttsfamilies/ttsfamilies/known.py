"""The model families: one table, by which folders are told apart and what is known is listed.

A family is a folder beside this file, with its `facts`. Packages that others publish name theirs
as entry points of the group GROUP. No torch here.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Registry, Signs
from ttsfamilies.chatterbox.facts import FAMILY as CHATTERBOX
from ttsfamilies.cosyvoice.facts import FAMILY as COSYVOICE
from ttsfamilies.csm.facts import FAMILY as CSM
from ttsfamilies.fish_s2.facts import FAMILY as FISH_S2
from ttsfamilies.glm_voice.facts import FAMILY as GLM_VOICE
from ttsfamilies.higgs_audio.facts import FAMILY as HIGGS_AUDIO
from ttsfamilies.kokoro.facts import FAMILY as KOKORO
from ttsfamilies.kyutai_tts.facts import FAMILY as KYUTAI_TTS
from ttsfamilies.orpheus.facts import FAMILY as ORPHEUS
from ttsfamilies.piper.facts import FAMILY as PIPER
from ttsfamilies.pocket_tts.facts import FAMILY as POCKET_TTS
from ttsfamilies.qwen3_omni.facts import FAMILY as QWEN3_OMNI
from ttsfamilies.qwen3_tts.facts import FAMILY as QWEN3_TTS
from ttsfamilies.step_audio2.facts import FAMILY as STEP_AUDIO2
from ttsfamilies.tacotron2.facts import FAMILY as TACOTRON2
from ttsfamilies.vesper.facts import FAMILY as VESPER
from ttsfamilies.voxcpm2.facts import FAMILY as VOXCPM2
from ttsfamilies.zonos.facts import FAMILY as ZONOS

GROUP: Final = "antiphon.families"


def published() -> tuple[FamilyFacts, ...]:
    """What installed packages name; raises TypeError for what is no FamilyFacts."""
    found = tuple(point.load() for point in entry_points(group=GROUP))
    for facts in found:
        if not isinstance(facts, FamilyFacts):
            raise TypeError(f"{facts!r} of the entry points {GROUP} is no FamilyFacts")
    return found


# Ours first: a folder that is of one of them is of no other.
FAMILIES: Final = Registry(
    (
        VESPER,
        QWEN3_TTS,
        ORPHEUS,
        CSM,
        KOKORO,
        PIPER,
        POCKET_TTS,
        HIGGS_AUDIO,
        ZONOS,
        COSYVOICE,
        CHATTERBOX,
        KYUTAI_TTS,
        VOXCPM2,
        TACOTRON2,
        FISH_S2,
        QWEN3_OMNI,
        GLM_VOICE,
        STEP_AUDIO2,
        *published(),
    )
)

__all__ = ["FAMILIES", "CodecFacts", "FamilyFacts", "Registry", "Signs"]
