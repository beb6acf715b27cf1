"""Qwen3-Omni's talker beside transformers' own."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from tests.parity.material import said
from tests.parity.qwen3_omni_cases import CASES, CHECKPOINTS, Case, drawn_rows
from tests.parity.subject import Subject
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Piece
from ttscommon.wire.tensors import FloatRows
from ttsfamilies.qwen3_omni.family import load
from ttsfamilies.qwen3_omni.synthetic import PUBLISHED, write_checkpoint

_IDS: Final = 3072
# Frames, and places of context, by case.
goldens = partial(said, "qwen3_omni")


class OmniSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    environment = "qwen3_omni"
    published_heads: ClassVar = {"backbone": PUBLISHED[:3]}
    loads = staticmethod(load)
    ids = _IDS

    def write(self, folder: Path, checkpoint: str) -> None:
        write_checkpoint(folder, **CHECKPOINTS[checkpoint])  # type: ignore[arg-type]

    def request(self, case: Case) -> SpeechRequest:
        (hot, subtalker), (k, subtalker_k) = case.temperature, case.top_k
        p, subtalker_p = case.top_p
        sampling = Sampling(
            temperature=hot,
            top_k=k,
            top_p=p,
            repetition_penalty=case.penalty,
            subtalker_temperature=subtalker,
            subtalker_top_k=subtalker_k,
            subtalker_top_p=subtalker_p,
            max_new_tokens=case.frames + 1,
        )
        return SpeechRequest(
            "r",
            "m",
            case.speaker,
            "" if case.rows else case.text,
            seed=case.seed,
            sampling=sampling,
            instructions=case.instruction,
            rows=case.rows > 0,
        )

    def pieces(self, case: Case) -> Sequence[Piece]:
        if not case.rows:
            return super().pieces(case)
        return [*_context(case), FloatRows.of("said", drawn_rows(case, case.rows, 0), "bf16")]

    def wanted(self, case: Case) -> Arrays:
        codes = np.array(goldens()[case.name]["codes"], np.int16)
        return {"codes": codes, "padded": np.zeros(len(codes), np.uint8)}


def _context(case: Case) -> list[Piece]:
    """Text, a picture and text."""
    prompted = case.context
    if prompted is None:
        return []
    rows, places = drawn_rows(case, prompted.rows, 1), goldens()[case.name]["places"]
    first, last = prompted.before, prompted.before + prompted.pictures
    cuts = (("context", 0, first), ("media", first, last), ("context", last, prompted.rows))
    return [
        FloatRows.of(kind, rows[start:stop], "f4", places[start:stop])  # type: ignore[arg-type]
        for kind, start, stop in cuts
    ]


FAMILY: Final = OmniSubject()
