"""A codec small enough for tests, with the published rates."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import torch

from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.kokoro.codec import KokoroCodec, Stream
from ttsfamilies.kokoro.generator import load_net
from ttsfamilies.kokoro.sizes import Voices
from ttsfamilies.kokoro.synthetic import write_checkpoint


class Tiny(KokoroCodec):
    """Knows one of its voices by the name that tests ask for."""

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        if request.voice == "slt":
            request = msgspec.structs.replace(request, voice="af_sky")
        return super().open(request, frame)


@cache
def tiny() -> Tiny:
    """In the engine, on the CPU."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=2)
        net = load_net(Path(folder))
        return Tiny("m", net, Voices.load(Path(folder), net.config))
