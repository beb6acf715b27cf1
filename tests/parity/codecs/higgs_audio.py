"""Higgs Audio's codec beside transformers' HiggsAudioV2TokenizerModel."""

from pathlib import Path
from typing import Final

import numpy as np

from tests.parity.higgs_audio_cases import CODEBOOKS, FRAMES, IDS, SEED, codes
from tests.parity.material import GOLDENS, Floats
from tests.parity.subject import CodecSubject
from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.wire.fields import Arrays
from ttsfamilies.higgs_audio.codec import HiggsCodec, load
from ttsfamilies.higgs_audio.synthetic import write_codec

_DELAY_PATTERN: Final = DelayPattern.even(CODEBOOKS)


class HiggsCodecSubject(CodecSubject):
    """See CodecSubject. Its frames are rows."""

    frames = FRAMES + _DELAY_PATTERN.most
    stride = 7

    def write(self, folder: Path) -> None:
        write_codec(folder, seed=SEED)

    def load(self, folder: Path) -> HiggsCodec:
        return load("m", folder)

    def material(self) -> Arrays:
        return {"codes": _DELAY_PATTERN.rows(codes(FRAMES, 2), IDS - 2, IDS - 1)}

    def wanted(self) -> Floats:
        with np.load(GOLDENS / "higgs_audio.npz") as file:
            return np.asarray(file["samples"])


CODEC: Final = HiggsCodecSubject()
