"""Qwen3-Omni's code2wav beside transformers' own."""

from pathlib import Path
from typing import Final

import numpy as np

from tests.parity.material import GOLDENS, Floats
from tests.parity.qwen3_omni_cases import CASES, CHECKPOINTS, codes
from tests.parity.subject import CodecSubject
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.codecs import load
from ttsfamilies.qwen3_omni.synthetic import write_checkpoint


class Code2WavSubject(CodecSubject):
    """See CodecSubject. The reference never makes the last samples, which are silence here."""

    frames = 24
    stride = 3

    def write(self, folder: Path) -> None:
        write_checkpoint(folder, **CHECKPOINTS[CASES[0].checkpoint])  # type: ignore[arg-type]

    def load(self, folder: Path) -> Codec:
        return load("m", folder)

    def material(self) -> Arrays:
        return {"codes": codes()}

    def wanted(self) -> Floats:
        with np.load(GOLDENS / "code2wav.npz") as file:
            made, count = file["samples"], int(file["count"])
        whole = np.zeros(self.frames * 1920, np.float32)[:: self.stride]
        assert count == self.frames * 1920 - 555
        whole[: len(made)] = made
        return whole


CODEC: Final = Code2WavSubject()
