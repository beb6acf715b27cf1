"""The codec of Qwen3-TTS beside the official package."""

from pathlib import Path
from typing import Final

import numpy as np

from tests.parity.cases import CHECKPOINTS
from tests.parity.material import GOLDENS, Floats, frames
from tests.parity.subject import CodecSubject
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.codecs import load
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint


class Qwen3Subject(CodecSubject):
    """See CodecSubject."""

    frames = 24
    stride = 3

    def write(self, folder: Path) -> None:
        write_checkpoint(folder, "tiny", **CHECKPOINTS["custom"])

    def load(self, folder: Path) -> Codec:
        return load("m", folder)

    def material(self) -> Arrays:
        return {"codes": frames(self.frames, 9).astype(np.int16)}

    def wanted(self) -> Floats:
        with np.load(GOLDENS / "codec.npz") as file:
            return np.asarray(file["once"])


CODEC: Final = Qwen3Subject()
