"""Pocket TTS's Mimi beside the decoder of Kyutai's own package."""

from pathlib import Path
from typing import Final

import numpy as np

from tests.parity.families.pocket_tts import write_pocket
from tests.parity.material import Floats, arrays
from tests.parity.pocket_cases import latents
from tests.parity.subject import CodecSubject
from ttscommon.wire.fields import Arrays
from ttsfamilies.pocket_tts.codec import PocketCodec, load_decoder


class PocketCodecSubject(CodecSubject):
    """See CodecSubject."""

    frames = 15
    atol = 2e-5

    def write(self, folder: Path) -> None:
        write_pocket(folder)

    def load(self, folder: Path) -> PocketCodec:
        return PocketCodec("m", load_decoder(folder))

    def material(self) -> Arrays:
        values, of = latents()
        return {"latent": values, "passage": of}

    def wanted(self) -> Floats:
        return np.asarray(arrays("pocket_tts")["pocket/samples"])


CODEC: Final = PocketCodecSubject()
