"""Step-Audio 2's language model beside transformers' Qwen2, and what it hears."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from tests.parity.material import said
from tests.parity.step_audio2_cases import CASES, CHECKPOINTS, RATE, SEED, VOICE_TOKENS, Case, sound
from tests.parity.subject import SOUND, Subject, answered, asked
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Sampling, SpeechRequest, Turn
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.talker.options import ModelOptions
from ttsfamilies.step_audio2.family import StepAudio2, load
from ttsfamilies.step_audio2.synthetic import PUBLISHED, SMALL, config, write_checkpoint

# Prompts, ids and rows by case.
goldens = partial(said, "step_audio2")


class StepAudio2Subject(Subject[Case]):
    """See Subject."""

    cases = CASES
    environment = "qwen3_omni"
    published_heads: ClassVar = {"backbone": PUBLISHED}
    loads = staticmethod(partial(load, how=ModelOptions()))
    ids = config()["text_config"]["vocab_size"]
    blocks = 1000

    def write(self, folder: Path, checkpoint: str) -> None:
        published, ending = CHECKPOINTS[checkpoint]
        heads = PUBLISHED if published else SMALL
        write_checkpoint(folder, heads=heads, seed=SEED, ending=ending)

    def request(self, case: Case) -> SpeechRequest:
        turns = tuple(
            Turn(0 if said.human else 1, said.text, SOUND if said.seconds else None)
            for said in case.said
        )
        told = case.sampling
        sampling = Sampling(
            temperature=told["temperature"],
            top_p=told["top_p"],
            repetition_penalty=told["penalty"],
            max_new_tokens=case.tokens,
        )
        return asked(case, instructions=case.how, turns=turns, sampling=sampling)

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        assert isinstance(model, StepAudio2)
        heard = (
            model.rows(sound(said.seconds), RATE) if said.seconds else None for said in case.said
        )
        return Derived({"token": np.zeros(VOICE_TOKENS, np.int16)}, tuple(heard))

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        (prompt,) = units
        return list(prompt.ids), goldens()[case.name]["prompt"]

    def wanted(self, case: Case) -> Arrays:
        found = goldens()[case.name]
        return answered(found["ids"], found["first"], TOKENS)


FAMILY: Final = StepAudio2Subject()
