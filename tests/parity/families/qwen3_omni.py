"""Qwen3-Omni's talker beside transformers' own."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from msgspec.structs import replace

from tests.parity.material import said
from tests.parity.qwen3_omni_cases import CASES, CHECKPOINTS, Case, drawn_rows
from tests.parity.subject import Subject, asked
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
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
        text, more = "" if case.rows else case.text, {"instructions": case.instruction}
        found = asked(case, case.speaker, text=text, rows=case.rows > 0, **more)
        sampling = replace(found.sampling, max_new_tokens=case.frames + 1)
        return replace(found, sampling=sampling)

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
