"""Chatterbox beside Resemble's own package, `chatterbox-tts`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from tests.parity.chatterbox_cases import CASES, CHECKPOINTS, SEED, SPEED, Case, recording
from tests.parity.material import said, wav
from tests.parity.subject import SOUND, Subject, asked
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.parameters import Value
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.chatterbox.facts import IDS, SILENCE
from ttsfamilies.chatterbox.family import load
from ttsfamilies.chatterbox.request import HEARD, SPEAKER_ROW
from ttsfamilies.chatterbox.synthetic import PUBLISHED, TINY, write_checkpoint

# Text ids and tokens by case, and what recordings are heard as.
told = partial(said, "chatterbox")


class ChatterboxSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    speed = SpeechRequest(
        "r", "m", "default", SPEED.text, sampling=Sampling(max_new_tokens=SPEED.tokens)
    )
    environment = "official"
    published_heads: ClassVar = {"backbone": (16, 16, 64)}
    loads = staticmethod(load)
    ids = IDS
    blocks = 1200

    def write(self, folder: Path, checkpoint: str) -> None:
        kind, ending, heard, heads = CHECKPOINTS[checkpoint]
        sizes = None
        if heads:  # the published width and heads, in one layer
            text_ids = TINY[kind].text_ids
            sizes = replace(PUBLISHED[kind], layers=1, hidden=256, text_ids=text_ids)
        write_checkpoint(folder, kind, sizes, seed=SEED, ending=ending, heard=heard)

    def request(self, case: Case) -> SpeechRequest:
        gpt = case.checkpoint.startswith("turbo")
        extra: dict[str, Value] = {"exaggeration": case.emotion, "cfg_weight": case.weight}
        extra |= {} if case.min_p is None else {"min_p": case.min_p}
        return asked(
            case,
            "" if case.seconds else "default",
            language=case.language,
            reference=SOUND if case.seconds else None,
            text=case.ours or case.text,
            extra_params={} if gpt else extra,
        )

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        return Derived(model.derive(wav(recording(case))) if case.seconds else None)

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        return [id for unit in units for id in unit.ids], told()["texts"][case.name]

    def recorded(self, case: Case) -> Mapping[str, Any]:
        heard = told()["heard"].get(case.name)
        return (heard and {SPEAKER_ROW: [heard["speaker"]], HEARD: heard["tokens"]}) or {}

    def wanted(self, case: Case) -> Arrays:
        tokens = told()["tokens"][case.name]
        tokens = tokens + [SILENCE] * 3 * case.checkpoint.startswith("turbo")
        count = len(tokens)
        return {
            "token": np.array(tokens, np.int16),
            "passage": np.zeros(count, np.int32),
            "left": np.arange(count, dtype=np.int32)[::-1],
        }


FAMILY: Final = ChatterboxSubject()
