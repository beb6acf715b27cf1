"""The codec of Qwen3-TTS in the engine: exact carried state by default, or the official windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from torch import Tensor

from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, named, unfilled
from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec, Work
from ttsfamilies.base.codec.causal import quantizer_sources
from ttsfamilies.base.codec.dac import CausalWave
from ttsfamilies.base.codec.executor import Slice
from ttsfamilies.base.codec.kernels.rows import StateRows
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import TOLERANCE, CausalCodec
from ttsfamilies.qwen3_tts.codec_net import CodecDecoder, FusedDecoder, load_config

UNUSED = ("encoder.", "decoder.quantizer.rvq_first.input_proj", "decoder.quantizer.rvq_rest.input")


def load_decoder(folder: Path, device: str = "cpu") -> CodecDecoder:
    """The decoder in a codec's own folder, in float32; raises CheckpointError."""
    net = unfilled(CodecDecoder, load_config(folder).decoder_config)
    filled(net, sources(net), Shards.of(folder), others=UNUSED, device=device)
    net.quantizer.freeze()
    return net


def sources(net: CodecDecoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    stack = "decoder.pre_transformer."
    found = named(net, _NAMES, theirs="decoder.")
    found |= decoder_sources(net.transformer.config, "transformer.", stack)
    parts = (f"decoder.quantizer.rvq_{kind}." for kind in ("first", "rest"))
    found |= quantizer_sources(net.config.num_quantizers, *parts)
    return found | wave_sources(net, "decoder.")


_NAMES: Final = {
    "before": "pre_conv.conv",
    "project_in": "pre_transformer.input_proj",
    "project_out": "pre_transformer.output_proj",
}


def wave_sources(net: CausalWave, theirs: str) -> dict[str, Source]:
    """Of its convolutions; theirs: what the names begin with."""
    last = len(net.ups) + 1
    ends = {"snake": f"decoder.{last}", "out": f"decoder.{last + 1}.conv"}
    return named(net, _WAVE | ends, theirs=theirs)


_WAVE: Final = {
    "stretch.*": "upsample.*.0.conv",
    "refine.*.depthwise": "upsample.*.1.dwconv.conv",
    "refine.*.norm": "upsample.*.1.norm",
    "refine.*.rise": "upsample.*.1.pwconv1",
    "refine.*.fall": "upsample.*.1.pwconv2",
    "refine.*.scale": "upsample.*.1.gamma",
    "widen": "decoder.0.conv",
    "ups.*.snake": "decoder.*+1.block.0",
    "ups.*.up": "decoder.*+1.block.1.conv",
    "ups.*.units.*.snake1": "decoder.*+1.block.*+2.act1",
    "ups.*.units.*.wide": "decoder.*+1.block.*+2.conv1.conv",
    "ups.*.units.*.snake2": "decoder.*+1.block.*+2.act2",
    "ups.*.units.*.point": "decoder.*+1.block.*+2.conv2.conv",
}


# The official package's windows: a decoder's state built anew at each, from a little left
# context.
#
# An approximation whose memory is bounded: a successor needs no more than one window and its
# context.


@dataclass(frozen=True)
class Windows:
    """Frames decoded together, and frames decoded again in front of them. Positive, in frames."""

    size: int = 300
    context: int = 25

    def __post_init__(self) -> None:
        if self.size < 1 or self.context < 0:
            raise ValueError("a window holds frames, its context no fewer than none")

    def replay_from(self, frame: int) -> int:
        """The first frame that a state needs to be fed before it can decode `frame`."""
        return max(0, frame // self.size * self.size - self.context)

    def begins_at(self, frame: int) -> bool:
        """Whether `frame` is the first of a window that is not the first."""
        return frame > 0 and frame % self.size == 0

    def spans(self, frame: int, count: int) -> Iterator[tuple[int, int, int]]:
        """As `cut`, with the first frame to decode before each: a window's context, or itself."""
        for first, stop in self.cut(frame, count):
            yield self.replay_from(first) if self.begins_at(first) else first, first, stop

    def cut(self, frame: int, count: int) -> Iterator[tuple[int, int]]:
        """Frames `frame` .. `frame + count` as (first, last + 1), none across a window's end."""
        end = frame + count
        while frame < end:
            stop = min(end, (frame // self.size + 1) * self.size)
            yield frame, stop
            frame = stop


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> Qwen3Codec:
    """The codec's own folder; raises CheckpointError."""
    net, rate = load_decoder(folder, how.where), load_config(folder).output_sample_rate
    return Qwen3Codec(name, net, rate, how)


@dataclass(frozen=True)
class WindowedSpec(CodecSpec):
    """Of a codec whose state is built anew at every window."""

    windows: Windows = field(default_factory=Windows)

    def replay_from(self, frame: int) -> int:
        return self.windows.replay_from(frame)


@dataclass(eq=False)
class WindowedStream:
    """row: of the state. frame: the next one. recent: [frames, codebooks], those before it that a
    next window would need; positions are counted from the first of all, as only distances matter.
    """

    row: Any
    frame: int
    recent: Array
    fresh: bool = True


class Qwen3Codec(CausalCodec):
    """A loaded decoder."""

    conditioning: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self, name: str, net: CodecDecoder, sample_rate: int, how: CodecOptions = ON_CPU
    ) -> None:
        windows = Windows(*how.windows) if how.windows else None
        self.net, self._windows = net, windows
        if how.device is not None:
            self._fused = FusedDecoder(net, tensor_cores=how.tensor_cores)
        spec = spec_of(name, net, sample_rate, windows)
        super().__init__(net, spec, how, extra=windows.context if windows else 0)

    def open(self, request: SpeechRequest, frame: int = 0) -> WindowedStream:
        return WindowedStream(self.executor.take(), frame, self.spec.none()["codes"])

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """Of a voice cloned in context; one that is only a vector continues nothing."""
        asked = request.reference
        if reference is None or asked is None or asked.x_vector_only:
            return None
        return {"codes": reference["codes"]}

    def slices(self, work: Work) -> Sequence[Slice]:
        stream: WindowedStream = work.state
        if not len(work):
            return []
        if self._windows is None:
            return [Slice(stream.row, work.frames, stream.fresh)]
        whole, begin = self._whole(work), stream.frame - len(stream.recent)
        found: list[Slice] = []
        for wanted, first, stop in self._windows.spans(stream.frame, len(work)):
            start = max(wanted, begin)  # a stream that began in the window has less context
            codes = {"codes": whole[start - begin : stop - begin]}
            fresh = (stream.fresh and not found) or self._windows.begins_at(first)
            skip = (first - start) * self.spec.samples_per_frame
            found.append(Slice(stream.row, codes, fresh, skip=skip))
        return found

    def launched(self, work: Work) -> None:
        stream: WindowedStream = work.state
        if not len(work):
            return
        if self._windows is not None:
            whole = self._whole(work)
            stream.recent = whole[max(0, len(whole) - self._windows.context) :]
        stream.frame += len(work)
        stream.fresh = False

    def step_in_place(
        self, inputs: Mapping[str, Tensor], rows: StateRows, state: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        codes = inputs["codes"].long()
        return {"samples": self._fused.step(codes, rows, list(state.values()))}

    def _whole(self, work: Work) -> Array:
        """The frames that a window may begin with, and the new ones."""
        return np.concatenate([work.state.recent, work.frames["codes"]])


def spec_of(name: str, net: CodecDecoder, sample_rate: int, windows: Windows | None) -> CodecSpec:
    """What the engine needs to know of a decoder."""
    c = net.config
    told = (name, "qwen3_tts", sample_rate, c.frame_samples)
    codes = {"codes": Field((c.num_quantizers,), "i2", c.codebook_size)}
    if windows is None:
        return CodecSpec(*told, codes, context_frames=c.context_frames, tolerance=TOLERANCE)
    return WindowedSpec(
        *(*told, codes),
        context_frames=windows.size + windows.context,
        tolerance=TOLERANCE,
        windows=windows,
    )
