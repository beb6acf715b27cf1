"""VoxCPM2's VAE beside the decoder of OpenBMB's own package, in float64."""

from pathlib import Path
from typing import Final

import numpy as np

from tests.parity.families.voxcpm2 import write_voxcpm
from tests.parity.material import Floats, arrays
from tests.parity.subject import CodecSubject
from tests.parity.voxcpm_cases import FRAMES, STRIDE, patches
from ttscommon.wire.fields import Arrays
from ttsfamilies.voxcpm2.codec import VoxcpmCodec, load_decoder


class VoxcpmCodecSubject(CodecSubject):
    """See CodecSubject."""

    frames = FRAMES
    stride = STRIDE
    atol = 2e-5

    def write(self, folder: Path) -> None:
        write_voxcpm(folder)

    def load(self, folder: Path) -> VoxcpmCodec:
        return VoxcpmCodec("m", load_decoder(folder))

    def material(self) -> Arrays:
        return {"patch": patches()}

    def wanted(self) -> Floats:
        return np.asarray(arrays("voxcpm2")["samples"], np.float32)


CODEC: Final = VoxcpmCodecSubject()
