"""Higgs Audio v2 beside transformers' HiggsAudioV2ForConditionalGeneration."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from tests.parity.higgs_audio_cases import CASES, CHECKPOINTS, IDS, SEED, SPEED_FRAMES, Case
from tests.parity.material import TEXT, said
from tests.parity.subject import SOUND, Subject, asked
from ttscommon.wire.fields import Array, Arrays, Derived
from ttscommon.wire.messages import Sampling, SpeechRequest, Turn
from ttsfamilies.base.lm.turns import FRAME
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.higgs_audio.family import load
from ttsfamilies.higgs_audio.synthetic import (
    PUBLISHED,
    SECOND,
    SMALL,
    THIRD,
    write_checkpoint,
    write_codec,
)

_SOUNDS: Final = (128_014, 128_016)
# Prompts and rows, those of no frame included, by case.
goldens = partial(said, "higgs_audio")


def rows_of(case: Case) -> Array:
    """All rows behind the first, which is one of beginnings."""
    return np.array(goldens()[case.name]["rows"][1:], np.int16)


class HiggsSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    speed = SpeechRequest("r", "m", "", TEXT, sampling=Sampling(max_new_tokens=SPEED_FRAMES))
    environment = "higgs_audio"
    published_heads: ClassVar = {"backbone": PUBLISHED[SECOND]}
    loads = staticmethod(load)
    ids = IDS

    def write(self, folder: Path, checkpoint: str) -> None:
        seed, published, ending, strays = CHECKPOINTS[checkpoint]
        heads = PUBLISHED[SECOND] if published else SMALL
        write_checkpoint(folder, seed=seed, heads=heads, ending=ending, strays=strays)

    def write_all(self, folder: Path) -> None:
        super().write_all(folder)
        write_checkpoint(folder / "higgs-third", kind=THIRD, seed=SEED, heads=PUBLISHED[THIRD])
        write_codec(folder / "higgs-codec", seed=SEED)

    def request(self, case: Case) -> SpeechRequest:
        return asked(
            case,
            instructions=case.instructions,
            turns=tuple(Turn(turn.speaker, turn.text, SOUND) for turn in case.turns),
            speaker=case.speaker,
            extra_params={"ras_win_len": case.window, "ras_win_max_num_repeat": case.repeats},
        )

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        """Codes as they are: the encoder has goldens of its own."""
        del model
        return Derived(None, tuple({"codes": turn.codes()} for turn in case.turns))

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        """The first row, which is always the same, is a part of ours."""
        (prompt,), theirs = units, np.array(goldens()[case.name]["prompt"])
        assert (prompt.codes[-1] == IDS - 2).all()
        assert prompt.frames == case.frames + 7
        ids = np.where(np.isin(theirs, _SOUNDS), FRAME, theirs).tolist()
        return prompt.text.tolist(), [*ids, FRAME]

    def wanted(self, case: Case) -> Arrays:
        """Rows that complete frames: those behind are of codebooks whose first has ended."""
        rows = rows_of(case)
        over = np.flatnonzero(rows[:, 0] == IDS - 1)
        last = over[0] + rows.shape[1] - 1 if len(over) else len(rows)
        return {"codes": rows[:last]}


FAMILY: Final = HiggsSubject()
