"""CSM beside transformers' CsmForConditionalGeneration."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from tests.parity.csm_cases import CASES, CHECKPOINTS, SPEED_FRAMES, Case
from tests.parity.material import TEXT, said, wav
from tests.parity.subject import SOUND, Subject, asked
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Sampling, SpeechRequest, Turn
from ttsfamilies.base.lm.turns import FRAME
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.csm.family import load
from ttsfamilies.csm.mimi.synthetic import add_decoder
from ttsfamilies.csm.synthetic import PUBLISHED, SMALL, write_checkpoint

_IDS: Final = 2051
_AUDIO, _AUDIO_END = 128_002, 128_003
# Prompts and frames, that of the end included, by case.
goldens = partial(said, "csm")


class CsmSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    speed = SpeechRequest("r", "m", "", TEXT, sampling=Sampling(max_new_tokens=SPEED_FRAMES))
    environment = "transformers"
    published_heads: ClassVar = {"backbone": PUBLISHED[0]}
    loads = staticmethod(load)
    ids = _IDS

    def write(self, folder: Path, checkpoint: str) -> None:
        """One of csm_cases.CHECKPOINTS, codec included."""
        seed, published, ending = CHECKPOINTS[checkpoint]
        write_checkpoint(folder, seed=seed, heads=PUBLISHED if published else SMALL, ending=ending)
        add_decoder(folder, seed=seed)

    def request(self, case: Case) -> SpeechRequest:
        turns = (Turn(t.speaker, t.text, SOUND if t.seconds else None) for t in case.turns)
        return asked(case, turns=tuple(turns), speaker=case.speaker)

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        sounds = [turn.sound() for turn in case.turns]
        return Derived(None, tuple(None if s is None else model.derive(wav(s)) for s in sounds))

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        (prompt,), theirs = units, np.array(goldens()[case.name]["prompt"])
        end = theirs == _AUDIO_END
        assert not prompt.codes[end].any()
        return prompt.text.tolist(), np.where((theirs == _AUDIO) | end, FRAME, theirs).tolist()

    def wanted(self, case: Case) -> Arrays:
        codes = np.array(goldens()[case.name]["codes"], np.int16)
        return {"codes": codes if codes[-1][:-1].any() else codes[:-1]}  # without that of the end


FAMILY: Final = CsmSubject()
