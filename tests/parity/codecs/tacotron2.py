"""Tacotron 2's postnet and HiFi-GAN beside torchaudio's and transformers'."""

from pathlib import Path
from typing import Final

import numpy as np

from tests.parity.families.tacotron2 import FAMILY, write_tacotron
from tests.parity.material import Floats, arrays
from tests.parity.subject import CodecSubject
from tests.parity.tacotron2_cases import HEARD, STRIDE
from ttscommon.wire.fields import Arrays
from ttsfamilies.tacotron2.codec import TacotronCodec, load_vocoder


class TacotronCodecSubject(CodecSubject):
    """See CodecSubject. The frames are the reference's own."""

    stride = STRIDE
    atol = 1e-5

    @property
    def frames(self) -> int:  # type: ignore[override]
        return len(FAMILY.wanted(HEARD)["mel"])

    def write(self, folder: Path) -> None:
        write_tacotron(folder)

    def load(self, folder: Path) -> TacotronCodec:
        return TacotronCodec("m", *load_vocoder(folder))

    def material(self) -> Arrays:
        found = FAMILY.wanted(HEARD)
        return {name: found[name] for name in ("mel", "begins")}

    def wanted(self) -> Floats:
        return np.asarray(arrays("tacotron2")["samples"])


CODEC: Final = TacotronCodecSubject()
