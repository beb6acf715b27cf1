"""Orpheus beside transformers' Llama, with the same mask of ids."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from tests.parity.material import said
from tests.parity.orpheus_cases import CASES, SEED, SPEED, SPEED_TOKENS, Case
from tests.parity.subject import Subject, asked
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.orpheus.family import CODES, END_SPEECH, audio_ids, load
from ttsfamilies.orpheus.synthetic import PUBLISHED_HEADS, write_checkpoint

# Prompts and ids, the end included, by case.
goldens = partial(said, "orpheus")


class OrpheusSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    speed = SpeechRequest(
        "r", "m", SPEED.voice, SPEED.text, sampling=Sampling(max_new_tokens=SPEED_TOKENS)
    )
    environment = "official"
    published_heads: ClassVar = {"backbone": (24, 8, 128)}
    loads = staticmethod(load)
    ids = CODES + 1
    steps = 7
    blocks = 2000

    def write(self, folder: Path, checkpoint: str) -> None:
        case = self.of(checkpoint)[0]
        heads = PUBLISHED_HEADS if case.published_heads else {}
        write_checkpoint(folder, seed=SEED, ending=case.ending, heads=heads)

    def request(self, case: Case) -> SpeechRequest:
        return asked(case, case.voice)

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        (prompt,) = units
        return list(prompt.ids), goldens()[case.name]["prompt"]

    def wanted(self, case: Case) -> Arrays:
        ids = goldens()[case.name]["ids"]
        ids = ids[: ids.index(END_SPEECH)] if END_SPEECH in ids else ids
        codes = np.array(ids).reshape(-1, 7) - audio_ids(np.zeros((1, 7), np.int16))
        return {"codes": codes.astype(np.int16), "passage": np.zeros(len(codes), np.int32)}


FAMILY: Final = OrpheusSubject()
