"""Higgs Audio v2 beside transformers' HiggsAudioV2ForConditionalGeneration."""

from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from tests.parity.higgs_audio_cases import CASES, CHECKPOINTS, IDS, SEED, SPEED_FRAMES, TEXT, Case
from tests.parity.material import said
from tests.parity.subject import Subject
from ttscommon.wire.fields import Array, Arrays, Derived
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest, Turn
from ttscommon.wire.parameters import Value
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

_SOUND: Final = Reference("0" * 16 + "-" + "0" * 64)
# Prompts and rows, those of no frame included, by case.
goldens = partial(said, "higgs_audio")


def ended(case: Case) -> bool:
    """Whether the reference's last row is that of ends."""
    return all(id == IDS - 1 for id in goldens()[case.name]["rows"][-1])


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
        sampling = Sampling(
            temperature=case.temperature,
            top_k=case.top_k,
            top_p=case.top_p,
            max_new_tokens=case.frames,
        )
        again: dict[str, Value] = {
            "ras_win_len": case.window,
            "ras_win_max_num_repeat": case.repeats,
        }
        return SpeechRequest(
            "r",
            "m",
            "",
            case.text,
            seed=case.seed,
            instructions=case.instructions,
            turns=tuple(Turn(turn.speaker, turn.text, _SOUND) for turn in case.turns),
            speaker=case.speaker,
            sampling=sampling,
            extra_params=again,
        )

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        """Codes as they are: the encoder has goldens of its own."""
        del model
        return Derived(None, tuple({"codes": turn.codes()} for turn in case.turns))

    def wanted(self, case: Case) -> Arrays:
        """Rows that complete frames: those behind are of codebooks whose first has ended."""
        rows = rows_of(case)
        over = np.flatnonzero(rows[:, 0] == IDS - 1)
        last = over[0] + rows.shape[1] - 1 if len(over) else len(rows)
        return {"codes": rows[:last]}


FAMILY: Final = HiggsSubject()
