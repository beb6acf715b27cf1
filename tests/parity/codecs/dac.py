"""DAC beside transformers' DacModel."""

from pathlib import Path
from typing import Final

import numpy as np

from tests.parity.dac_material import FRAMES, SEED, codes
from tests.parity.material import GOLDENS, Floats
from tests.parity.subject import CodecSubject
from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.zonos.codec import load
from ttsfamilies.zonos.synthetic_dac import write_codec


class DacSubject(CodecSubject):
    """See CodecSubject. It is shown rows, whose codes are delayed, as the talker draws them."""

    frames = FRAMES + 8
    stride = 3

    def write(self, folder: Path) -> None:
        write_codec(folder, seed=SEED)

    def load(self, folder: Path) -> Codec:
        return load("m", folder, CodecOptions())

    def material(self) -> Arrays:
        return {"codes": DelayPattern.even(9).rows(codes(), 1025, 1025)}

    def wanted(self) -> Floats:
        with np.load(GOLDENS / "zonos.npz") as file:
            return np.asarray(file["samples"])


CODEC: Final = DacSubject()
