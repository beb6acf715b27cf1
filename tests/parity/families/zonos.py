"""Zonos beside the authors' package."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from msgspec.structs import replace

from tests.parity.material import arrays, wav
from tests.parity.subject import SOUND, Subject, asked
from tests.parity.zonos_cases import CASES, SEED, SPEED, TEXT, WORDS, Case, recording
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.zonos.facts import IDS
from ttsfamilies.zonos.family import load
from ttsfamilies.zonos.synthetic import PUBLISHED_HEADS, write_checkpoint

# Rows [rows, codebooks] by case, and what the encoders make of the recording.
goldens = partial(arrays, "zonos")


class ZonosSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    speed = SpeechRequest("r", "m", "default", TEXT, sampling=Sampling(max_new_tokens=SPEED.frames))
    environment = "zonos"
    published_heads: ClassVar = {"backbone": (16, 4, 128)}
    loads = staticmethod(load)
    ids = IDS
    heard_atol = 1e-4

    def write(self, folder: Path, checkpoint: str) -> None:
        case = self.of(checkpoint)[0]
        heads = {**PUBLISHED_HEADS, "attn_mlp_d_intermediate": 16} if case.published_heads else {}
        encoders = any(one.heard for one in self.of(checkpoint))
        write_checkpoint(folder, seed=SEED, ending=case.ending, backbone=heads, encoders=encoders)

    def request(self, case: Case) -> SpeechRequest:
        settings = {"min_p": case.min_p, "guidance": case.guidance, **case.settings}
        heard = replace(SOUND, text=WORDS if case.goes_on else "") if case.heard else None
        told = {"language": case.language, "extra_params": settings, "reference": heard}
        found = asked(case, "default", text=TEXT, **told)
        return replace(found, sampling=replace(found.sampling, top_p=case.top_p or 1.0))

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        return Derived(model.derive(wav(recording()))) if case.heard else Derived()

    def recorded(self, case: Case) -> Mapping[str, Any]:
        found = {"codes": goldens()["heard"], "speaker": goldens()["speaker"]}
        return found if case.heard else {}

    def wanted(self, case: Case) -> Arrays:
        rows = goldens()[case.name]
        return {"codes": rows, "passage": np.zeros(len(rows), np.int32)}


FAMILY: Final = ZonosSubject()
