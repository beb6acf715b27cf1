"""The model families: one table, by which folders are told apart and what is known is listed.

A family is a module here, with its facts; a package `talker.models.NAME`, with `loading.load`; and
a package `vocoder.codecs.CODEC`, with `loading.load`. Its line in FAMILIES is all that names it
elsewhere. No torch here.
"""

from __future__ import annotations

from typing import Final

from ttscommon.engine.families import (
    chatterbox,
    cosyvoice,
    csm,
    fish_s2,
    glm_voice,
    higgs_audio,
    kokoro,
    kyutai_tts,
    orpheus,
    piper,
    pocket_tts,
    qwen3_omni,
    qwen3_tts,
    step_audio2,
    tacotron2,
    vesper,
    voxcpm2,
    zonos,
)
from ttscommon.engine.families.facts import CodecFacts, FamilyFacts, Signs
from ttscommon.engine.families.registry import Registry

FAMILIES: Final = Registry(
    (
        vesper.FAMILY,
        qwen3_tts.FAMILY,
        orpheus.FAMILY,
        csm.FAMILY,
        kokoro.FAMILY,
        piper.FAMILY,
        pocket_tts.FAMILY,
        higgs_audio.FAMILY,
        zonos.FAMILY,
        cosyvoice.FAMILY,
        chatterbox.FAMILY,
        kyutai_tts.FAMILY,
        voxcpm2.FAMILY,
        tacotron2.FAMILY,
        fish_s2.FAMILY,
        qwen3_omni.FAMILY,
        glm_voice.FAMILY,
        step_audio2.FAMILY,
    )
)

__all__ = ["FAMILIES", "CodecFacts", "FamilyFacts", "Registry", "Signs"]
