"""The codec: a frame is a stroke that has died away when the next begins."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chime import FRAME, NOTES, RATE
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Samples, Work
from ttsfamilies.base.codec.options import CodecOptions


class Bells(Codec):
    def __init__(self, name: str) -> None:
        frame = {"note": Field((), "i2", NOTES)}
        self.spec = CodecSpec(name, "chime", RATE, FRAME, frame, context_frames=0)

    def open(self, request: SpeechRequest, frame: int = 0) -> None:
        return None

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        return [Decoded(self._rung(work)) for work in batch]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _rung(self, work: Work) -> Samples:
        t = np.arange(FRAME) / RATE
        hertz = 220.0 * 2.0 ** (work.frames["note"][:, None] / 24.0)
        return (0.3 * np.exp(-40 * t) * np.sin(2 * np.pi * hertz * t)).astype("f4").reshape(-1)


def load(name: str, folder: Path, how: CodecOptions) -> Bells:
    return Bells(name)
