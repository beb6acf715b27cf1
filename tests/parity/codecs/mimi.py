"""Mimi beside transformers' MimiModel."""

from pathlib import Path
from typing import Final

import numpy as np

from tests.parity.csm_cases import FRAMES, codes
from tests.parity.families.csm import write_csm
from tests.parity.material import GOLDENS, Floats
from tests.parity.subject import CodecSubject
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.codec.stateful import CausalCodec
from ttsfamilies.csm.mimi.codec import load


class MimiSubject(CodecSubject):
    """See CodecSubject."""

    frames = FRAMES
    atol = 1e-5

    def write(self, folder: Path) -> None:
        write_csm(folder)

    def load(self, folder: Path) -> CausalCodec:
        return load("m", folder)

    def material(self) -> Arrays:
        return {"codes": codes()}

    def wanted(self) -> Floats:
        with np.load(GOLDENS / "mimi.npz") as file:
            return np.asarray(file["samples"])


CODEC: Final = MimiSubject()
