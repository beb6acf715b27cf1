"""CSM beside transformers' CsmForConditionalGeneration."""

from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from tests.parity.csm_cases import CASES, CHECKPOINTS, SPEED_FRAMES, TEXT, Case, wav
from tests.parity.material import said
from tests.parity.subject import Subject
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest, Turn
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.csm.family import load
from ttsfamilies.csm.mimi.synthetic import add_decoder
from ttsfamilies.csm.synthetic import PUBLISHED, SMALL, write_checkpoint

_SOUND: Final = Reference("0" * 16 + "-" + "0" * 64)
_IDS: Final = 2051
# Prompts and frames, that of the end included, by case.
goldens = partial(said, "csm")


def ended(case: Case) -> bool:
    """Whether the reference's last frame is the end."""
    return not any(goldens()[case.name]["codes"][-1][:-1])


def write_csm(folder: Path, name: str = "csm") -> None:
    """One of csm_cases.CHECKPOINTS, codec included."""
    seed, published, ending = CHECKPOINTS[name]
    write_checkpoint(folder, seed=seed, heads=PUBLISHED if published else SMALL, ending=ending)
    add_decoder(folder, seed=seed)


class CsmSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    speed = SpeechRequest("r", "m", "", TEXT, sampling=Sampling(max_new_tokens=SPEED_FRAMES))
    environment = "transformers"
    published_heads: ClassVar = {"backbone": PUBLISHED[0]}
    loads = staticmethod(load)
    ids = _IDS

    def write(self, folder: Path, checkpoint: str) -> None:
        write_csm(folder, checkpoint)

    def request(self, case: Case) -> SpeechRequest:
        (hot, subtalker), (k, subtalker_k) = case.temperature, case.top_k
        p, subtalker_p = case.top_p
        sampling = Sampling(
            temperature=hot,
            top_k=k,
            top_p=p,
            subtalker_temperature=subtalker,
            subtalker_top_k=subtalker_k,
            subtalker_top_p=subtalker_p,
            max_new_tokens=case.frames,
        )
        turns = (Turn(t.speaker, t.text, _SOUND if t.seconds else None) for t in case.turns)
        return SpeechRequest(
            "r",
            "m",
            "",
            case.text,
            seed=case.seed,
            turns=tuple(turns),
            speaker=case.speaker,
            sampling=sampling,
        )

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        sounds = [turn.sound() for turn in case.turns]
        return Derived(None, tuple(None if s is None else model.derive(wav(s)) for s in sounds))

    def wanted(self, case: Case) -> Arrays:
        codes = np.array(goldens()[case.name]["codes"], np.int16)
        return {"codes": codes[:-1] if ended(case) else codes}


FAMILY: Final = CsmSubject()
