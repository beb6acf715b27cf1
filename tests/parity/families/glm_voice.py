"""GLM-4-Voice beside transformers' GLM, and tiktoken's reading of its prompts."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from tests.parity.glm_voice_cases import CASES, CODEC_SEED, RATE, SEED, Case, spoken
from tests.parity.material import said, wav
from tests.parity.subject import SOUND, Subject, answered, asked
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import SpeechRequest, Turn
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.glm_voice.family import load
from ttsfamilies.glm_voice.synthetic import (
    CODES,
    HEADS,
    PUBLISHED_HEADS,
    specials,
    write_checkpoint,
    write_codec,
)

CODEC: Final = "glm-codec"
_IDS: Final = specials()
_ENDS: Final = tuple(_IDS[name] for name in ("<|endoftext|>", "<|user|>", "<|observation|>"))
# Prompts and ids, the end included, by case; ids of what was heard, by seconds.
goldens = partial(said, "glm_voice")


def sound(seconds: float) -> bytes:
    """A turn's, as a client sends it."""
    return wav(np.round(spoken(seconds) * 32_768).astype(np.int16), RATE)


class GlmSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    environment = "glm_voice"
    published_heads: ClassVar = {"backbone": (32, 2, 128)}
    loads = staticmethod(load)
    ids = max(_IDS.values()) + 9

    def write(self, folder: Path, checkpoint: str) -> None:
        case = self.of(checkpoint)[0]
        heads = PUBLISHED_HEADS if case.published_heads else HEADS
        write_checkpoint(folder, seed=SEED, ending=case.ending, heads=heads)

    def write_all(self, folder: Path) -> None:
        super().write_all(folder)
        write_codec(folder / CODEC, seed=CODEC_SEED)

    def request(self, case: Case) -> SpeechRequest:
        turns = tuple(Turn(t.speaker, t.text, SOUND if t.seconds else None) for t in case.turns)
        return asked(case, "glm-4-voice", turns=turns)

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        sounds = (model.derive(sound(t.seconds)) if t.seconds else None for t in case.turns)
        return Derived(None, tuple(sounds))

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        (prompt,) = units
        return list(prompt.ids), goldens()[case.name]["prompt"]

    def wanted(self, case: Case) -> Arrays:
        ids = goldens()[case.name]["ids"]
        over = next((at for at, id in enumerate(ids) if id in _ENDS), len(ids))
        return answered(ids[:over], _IDS["<|audio_0|>"], CODES)


FAMILY: Final = GlmSubject()
