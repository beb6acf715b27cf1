"""The codec of Qwen3-TTS on the CPU: exact carried state by default, or the official windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import torch

from ttscommon.wire.fields import Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work
from ttsfamilies.qwen3_tts.codec.config import load_config
from ttsfamilies.qwen3_tts.codec.net import CodecDecoder
from ttsfamilies.qwen3_tts.codec.stream import CodecStream, Windows, advance
from ttsfamilies.qwen3_tts.codec.weights import load_decoder

# Convolutions over pieces of other lengths sum in another order. The differences are far smaller
# than a step, but each rounding may go the other way, and pieces follow the listener's slack.
_TOLERANCE: Final = 2


@dataclass(frozen=True)
class WindowedSpec(CodecSpec):
    """Of a codec whose state is built anew at every window."""

    windows: Windows = field(default_factory=Windows)

    def replay_from(self, frame: int) -> int:
        return self.windows.replay_from(frame)


class Qwen3Codec(Codec):
    """A loaded decoder. The codes say who speaks; the voice is not looked at."""

    def __init__(
        self,
        name: str,
        net: CodecDecoder,
        sample_rate: int,
        windows: Windows | None = None,
    ) -> None:
        self._net, self._windows = net, windows
        self.spec = spec_of(name, net, sample_rate, windows)

    @classmethod
    def load(cls, name: str, folder: Path, windows: Windows | None = None) -> Self:
        """Read the codec's own folder; raises CheckpointError."""
        net = load_decoder(folder)
        return cls(name, net, load_config(folder).output_sample_rate, windows)

    def open(self, request: SpeechRequest, frame: int = 0) -> CodecStream:
        del request
        return CodecStream(self._net, self._windows, frame)

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """Of a voice cloned in context; one that is only a vector continues nothing."""
        return continued(request, reference)

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        streams: list[CodecStream] = [work.state for work in batch]
        codes = [torch.from_numpy(work.frames["codes"].astype("int64")) for work in batch]
        before = [stream.snapshot() for stream in streams]
        try:
            samples = advance(streams, codes)
        except Exception:
            for stream, known in zip(streams, before, strict=True):
                stream.go_back(known)
            raise
        return [Decoded(sound.float().numpy()) for sound in samples]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket


def continued(request: SpeechRequest, reference: Arrays | None) -> Arrays | None:
    """Frames of a reference that the request's own go on from: see Codec.prefix."""
    asked = request.reference
    if reference is None or asked is None or asked.x_vector_only:
        return None
    return {"codes": reference["codes"]}


def spec_of(name: str, net: CodecDecoder, sample_rate: int, windows: Windows | None) -> CodecSpec:
    """What the engine needs to know of a decoder, on a CPU or a device."""
    c = net.config
    codes = {"codes": Field((c.num_quantizers,), "i2", c.codebook_size)}
    if windows is None:
        return CodecSpec(
            name,
            "qwen3_tts",
            sample_rate,
            c.frame_samples,
            codes,
            context_frames=c.context_frames,
            tolerance=_TOLERANCE,
        )
    return WindowedSpec(
        name,
        "qwen3_tts",
        sample_rate,
        c.frame_samples,
        codes,
        context_frames=windows.size + windows.context,
        tolerance=_TOLERANCE,
        windows=windows,
    )
