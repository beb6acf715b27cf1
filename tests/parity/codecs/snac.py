"""SNAC beside the published package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from tests.parity.material import GOLDENS, Floats
from tests.parity.snac_material import FRAMES, SEED, codes, noise
from tests.parity.subject import CodecSubject
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.orpheus.snac.codec import Snac, Stream, load_decoder
from ttsfamilies.orpheus.snac.synthetic import write_codec


class GoldenSnac(Snac):
    """With the goldens' noise at absolute steps."""

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        stream = super().open(request, frame)
        stream.noise = golden
        return stream


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
