"""Fish Audio S2 beside a loop on transformers' Qwen3 and Llama; see reference/fish_s2.py."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from tests.parity.fish_s2_cases import CASES, CHECKPOINTS, CODES, VOICES, Case
from tests.parity.material import said
from tests.parity.subject import Subject, asked
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.turns import FRAME
from ttsfamilies.fish_s2.family import load
from ttsfamilies.fish_s2.synthetic import FIRST, PUBLISHED, SMALL, add_voice, write_checkpoint

# Prompts of all batches, and frames with the batches that they are of, by case.
goldens = partial(said, "fish_s2")


class FishSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    environment = "fish_s2"
    published_heads: ClassVar = {"slow": PUBLISHED}
    loads = staticmethod(load)
    ids = CODES + 1

    def write(self, folder: Path, checkpoint: str) -> None:
        seed, codebooks, published, ending = CHECKPOINTS[checkpoint]
        heads = PUBLISHED if published else SMALL
        write_checkpoint(folder, seed=seed, codebooks=codebooks, heads=heads, ending=ending)
        for voice, heard in VOICES.items():
            for i, one in enumerate(heard):
                name = voice if len(heard) == 1 else f"{voice}/{i}"
                add_voice(folder, name, one.codes(codebooks), one.text)

    def request(self, case: Case) -> SpeechRequest:
        told = {"ras_win_len": case.window, "chunk_length": case.chunk_length}
        return asked(case, case.voice, extra_params=told)

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        found = []
        for batch in units:
            ids = np.where(batch.text == FRAME, FIRST + batch.codes[:, 0], batch.text)
            found.append(np.column_stack((ids, batch.codes)).tolist())
        return found, goldens()[case.name]["prompts"]

    def wanted(self, case: Case) -> Arrays:
        said = goldens()[case.name]
        return {
            "codes": np.array(said["codes"], np.int16),
            "passage": np.array(said["passage"], np.int32),
        }


FAMILY: Final = FishSubject()
