"""SNAC beside the published package."""

from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from tests.parity.material import GOLDENS, Floats
from tests.parity.snac_material import FRAMES, SEED, codes, noise
from tests.parity.subject import CodecSubject
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.codec.windowed import Noise
from ttsfamilies.orpheus.codec import Snac, load_decoder
from ttsfamilies.orpheus.synthetic_snac import write_codec


class GoldenSnac(Snac):
    """With the goldens' noise at absolute steps."""

    def noise(self, seed: int) -> Noise:
        return golden


def golden(block: int, first: int, steps: int, device: torch.device) -> Tensor:
    """See ttsfamilies.base.codec.windowed.Noise."""
    return torch.from_numpy(noise(SEED, block, first + steps)[first:]).to(device)


class SnacSubject(CodecSubject):
    """See CodecSubject."""

    frames = FRAMES
    environment = "official"

    def write(self, folder: Path) -> None:
        write_codec(folder, seed=SEED)

    def load(self, folder: Path) -> GoldenSnac:
        return GoldenSnac("m", load_decoder(folder))

    def material(self) -> Arrays:
        return {"codes": codes()}

    def wanted(self) -> Floats:
        with np.load(GOLDENS / "snac.npz") as file:
            return np.asarray(file["samples"])


CODEC: Final = SnacSubject()
