"""Piper's generator beside onnxruntime, with a published voice."""

from pathlib import Path
from typing import Final

from tests.parity.families.piper import CASES, FAMILY, referred
from tests.parity.material import Floats
from tests.parity.piper_voice import codec
from tests.parity.subject import CodecSubject
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.piper.codec import PiperCodec


class PiperCodecSubject(CodecSubject):
    """See CodecSubject. The latents are the reference's own."""

    atol = 1e-4
    request = SpeechRequest("r", "joe", "joe", "text", seed=1)

    @property
    def frames(self) -> int:  # type: ignore[override]
        return len(self.wanted()) // 256

    def write(self, folder: Path) -> None:
        """The voice is where it was installed."""

    def load(self, folder: Path) -> PiperCodec:
        return codec()

    def material(self) -> Arrays:
        found = FAMILY.wanted(CASES[0])
        return {name: found[name] for name in codec().spec.frame}

    def wanted(self) -> Floats:
        (said,) = referred(CASES[0])
        return said.sound


CODEC: Final = PiperCodecSubject()
