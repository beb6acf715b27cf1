"""code2wav in the engine: each stream carries exact state for ever.

The reference never makes the last `lag_samples` of a request's frames; here they are silence, so
that a request has as many samples as its frames fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec, Work
from ttsfamilies.base.codec.causal_codec import TOLERANCE, CausalCodec, CausalStream
from ttsfamilies.base.codec.executor import Slice
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.qwen3_omni.codec.config import SAMPLE_RATE
from ttsfamilies.qwen3_omni.codec.net import LaggingDecoder, load_decoder


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> OmniCodec:
    """A checkpoint's codec; raises CheckpointError."""
    return OmniCodec(name, load_decoder(folder, how.where), how)


class OmniCodec(CausalCodec):
    """A loaded decoder. In front of a request's first samples it gives `lag_samples` of none."""

    def __init__(self, name: str, net: LaggingDecoder, how: CodecOptions = ON_CPU) -> None:
        c = net.config
        spec = CodecSpec(
            *(name, "qwen3_omni", SAMPLE_RATE, c.frame_samples),
            {"codes": Field((c.num_quantizers,), "i2", c.codebook_size)},
            lag_samples=c.lag_samples,
            context_frames=c.context_frames,
            tolerance=TOLERANCE,
        )
        super().__init__(net, spec, how)

    def slices(self, work: Work) -> Sequence[Slice]:
        skip = self.spec.lag_samples if self._unbegun(work.state) else 0
        return [one._replace(skip=skip) for one in super().slices(work)]

    def silence_behind(self, work: Work) -> int:
        """None of a request that never had a frame."""
        begun = len(work) or not self._unbegun(work.state)
        return self.spec.lag_samples if work.final and begun else 0

    @staticmethod
    def _unbegun(stream: CausalStream) -> bool:
        """Whether the request's first frame is still to come."""
        return stream.fresh and not stream.begin
