"""Pocket TTS's decoder in the engine: exact state within a passage, begun anew with each.

The reference decodes each passage by itself and fades its first 5 ms in, because a blank state
clicks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.nn.weights import Shards, Source, filled, named, unfilled
from ttscommon.wire.fields import Arrays, Field, cut
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec, Work
from ttsfamilies.base.codec.executor import Slice
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import TOLERANCE, CausalCodec
from ttsfamilies.csm.mimi.net import VectorDecoder, context_frames, layers
from ttsfamilies.pocket_tts.net import FLOW_LM, MIMI, stack_sources, window_config
from ttsfamilies.pocket_tts.sizes import LatentMimi, load_config


class LatentDecoder(VectorDecoder):
    """Latents as the talker is fed them, normalised, to sound."""

    def __init__(self, c: LatentMimi) -> None:
        sizes = c.decoder_sizes
        super().__init__(sizes, window_config(sizes))
        self.values = c.quantizer.dimension
        self.project = nn.Conv1d(self.values, sizes.hidden_size, 1, bias=False)
        self.std = nn.Parameter(torch.empty(self.values))
        self.mean = nn.Parameter(torch.empty(self.values))

    def vectors(self, frames: Tensor) -> Tensor:
        return self.project((frames * self.std + self.mean).transpose(1, 2))


def sources(net: LatentDecoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    places = {"project": "quantizer.output_proj", "stretch": "upsample.convtr.convtr"}
    for ours, layer in layers(net.sizes):
        places[ours] = f"decoder.model.{layer}.{'convtr' if ours.endswith('.up') else 'conv'}"
    found = named(net, {"std": "emb_std", "mean": "emb_mean"}, theirs=FLOW_LM)
    found |= named(net, places, theirs=MIMI)
    stack = f"{MIMI}decoder_transformer.transformer."
    return found | stack_sources(net.transformer, "transformer.", stack)


def load_decoder(folder: Path, device: str = "cpu") -> LatentDecoder:
    """The decoder in a folder, in float32; raises CheckpointError."""
    net = unfilled(LatentDecoder, load_config(folder).mimi)
    others = (FLOW_LM, f"{MIMI}encoder", f"{MIMI}downsample.")
    return filled(net, sources(net), Shards.of(folder), others=others, device=device)


_FADES_A_SECOND: Final = 200
_PASSAGE: Final = "passage"
_NONE: Final = -1
# What a step is told of a stream: 0 fades its first samples in, 1 leaves them.
_LOUD: Final = "loud"


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> PocketCodec:
    """A checkpoint's codec; raises CheckpointError."""
    return PocketCodec(name, load_decoder(folder, how.where), how)


@dataclass(eq=False)
class PassageStream:
    """row: of the state. passage: of the last frame, none at the beginning."""

    row: Any
    passage: int = _NONE


class PocketCodec(CausalCodec):
    """A loaded decoder."""

    conditioning: ClassVar[Mapping[str, str]] = {_LOUD: "f4"}

    def __init__(self, name: str, net: LatentDecoder, how: CodecOptions = ON_CPU) -> None:
        c = net.sizes
        spec = CodecSpec(
            *(name, "pocket_tts", c.sampling_rate, c.frame_samples),
            {"latent": Field((net.values,), "f4"), _PASSAGE: Field((), "i4")},
            context_frames=context_frames(c),
            tolerance=TOLERANCE,
        )
        super().__init__(net, spec, how)
        fade = np.linspace(0, 1, c.sampling_rate // _FADES_A_SECOND, dtype=np.float32)
        self._fade = torch.from_numpy(fade).to(how.where)

    def open(self, request: SpeechRequest, frame: int = 0) -> PassageStream:
        del request, frame  # only distances matter
        return PassageStream(self.executor.take())

    def slices(self, work: Work) -> Sequence[Slice]:
        return [
            Slice(work.state.row, frames, fresh, {_LOUD: float(not fresh)})
            for frames, fresh in passages(work.frames, work.state.passage)
        ]

    def launched(self, work: Work) -> None:
        of = work.frames[_PASSAGE]
        work.state.passage = int(of[-1]) if len(of) else work.state.passage

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        found, after = super().step(inputs, state)
        samples, count = found["samples"], len(self._fade)
        faded = samples[:, :count] * torch.maximum(self._fade, inputs[_LOUD][:, None])
        return {"samples": torch.cat((faded, samples[:, count:]), 1)}, after


def passages(frames: Arrays, before: int) -> Iterator[tuple[Arrays, bool]]:
    """Frames divided where a passage begins, and whether they are its first.

    before: the passage of the frame before them.
    """
    of = frames[_PASSAGE].tolist()
    known = [before, *of]
    starts = [at for at in range(len(of)) if not at or of[at] != known[at]]
    for start, stop in zip(starts, [*starts[1:], len(of)], strict=bool(of)):
        yield cut(frames, start, stop), of[start] != known[start]
