"""Tacotron 2's codec in the engine: exact state, or the chunks of an incremental server.

Du et al. (2023) decode 32 frames behind the last 4 or 8 of those before, and fade one decoding into
the other where they overlap: nothing is held back for what layers look ahead, and samples at every
border are others than those of one shot. docs/decisions/receptive-field.md compares both.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.flat import flat
from ttscommon.engine.nn.weights import Source, as_stored, filled, unfilled
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.causal import StreamContext, convolved, reach_of
from ttsfamilies.base.codec.hifigan import Generator, ResidualSizes, Sizes, UpsampleSizes
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.windowed import (
    BEGINS,
    FLAG,
    TOLERANCE,
    Kept,
    SentenceCodec,
    SentenceStream,
    left_context,
)
from ttsfamilies.tacotron2.facts import HifiganConfig, TacotronSizes
from ttsfamilies.tacotron2.net import counted, normed_sources, sizes_of

_TALKED: Final = ("embedding.", "encoder.", "decoder.")
_PAIRED: Final = "1"


class MelVocoder(nn.Module):
    """Mel frames as the talker makes them to samples, piece by piece; see StreamContext."""

    def __init__(self, config: HifiganConfig, sizes: TacotronSizes) -> None:
        super().__init__()
        count, self._kernel, widest = sizes.restoring
        widths = [sizes.mels, *[widest] * (count - 1), sizes.mels]
        self.postnet = nn.ModuleList(
            nn.Conv1d(inputs, outputs, self._kernel) for inputs, outputs in pairwise(widths)
        )
        self.generator = Generator(generator_sizes(config))
        self.hop, self.mels = config.hop_size, sizes.mels

    @property
    def restoring(self) -> int:
        """Frames on each side that the postnet reaches."""
        return len(self.postnet) * (self._kernel // 2)

    @property
    def lag(self) -> int:
        """Samples that wait for frames behind them."""
        return self.restoring * self.hop + self.generator.sizes.lag

    @property
    def context(self) -> int:
        """Frames before a frame that its samples depend on."""
        return self.restoring + self.generator.sizes.context

    def forward(self, mel: Tensor, context: StreamContext) -> Tensor:
        """[1, mels, frames] -> [samples] that are final by then."""
        return self.generator(self.restored(mel, context), None, context)

    def restored(self, mel: Tensor, context: StreamContext) -> Tensor:
        """What the generator is shown: [1, mels, frames], as many as are final by then."""
        whole = x = mel[:, :, None]
        last = len(self.postnet) - 1
        for index, conv in enumerate(self.postnet):
            assert isinstance(conv, nn.Conv2d)
            x = convolved(conv, context.around(x, reach_of(conv)))
            x = torch.tanh(x) if index < last else x
        whole, x = context.in_step((whole, x))
        return (whole + x)[:, :, 0]


def generator_sizes(config: HifiganConfig) -> Sizes:
    """What the generator's own config.json says."""
    pairs = zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True)
    blocks = tuple(
        ResidualSizes(k, dilations, config.resblock == _PAIRED) for k, dilations in pairs
    )
    ups = zip(config.upsample_kernel_sizes, config.upsample_rates, strict=True)
    stages = tuple(UpsampleSizes(kernel, rate, blocks) for kernel, rate in ups)
    return Sizes(config.num_mels, config.upsample_initial_channel, 0, stages, biased=True)


def sources(net: MelVocoder, names: Container[str]) -> dict[str, Source]:
    """Every parameter's published tensors; names: of those that are there, as weights may have
    their norm apart or not.
    """
    found = normed_sources(len(net.postnet), "postnet.", "postnet.convolutions.")
    generator = as_stored(net.generator.state_dict(), names)
    return found | {f"generator.{name}": source for name, source in generator.items()}


def load_vocoder(folder: Path, device: str = "cpu") -> tuple[MelVocoder, HifiganConfig]:
    """Of a folder, in float32; raises CheckpointError."""
    config, sizes, shards = sizes_of(folder)
    net = unfilled(MelVocoder, config, sizes)
    others = (*_TALKED, *counted(shards.shapes))
    filled(net, sources(net, shards.shapes), shards, others=others, device=device)
    flat(net)
    return net, config


_MEL: Final = "mel"


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> TacotronCodec:
    """A checkpoint's folder; raises CheckpointError."""
    net, config = load_vocoder(folder, how.where)
    if how.windows is None:
        return TacotronCodec(name, net, config)
    return OverlappingCodec(name, net, config, Overlap(*how.windows))


class TacotronCodec(SentenceCodec[None]):
    """A loaded generator. There is one voice."""

    field = _MEL

    def __init__(self, name: str, net: MelVocoder, config: HifiganConfig) -> None:
        self._net, self._voice = net, config.voice
        self.device = net.generator.conv_pre.weight.device
        self.spec = self._spec(name, config)

    def _spec(self, name: str, config: HifiganConfig) -> CodecSpec:
        context = left_context(self._net.lag, config.hop_size, self._net.context)
        return CodecSpec(**_facts(name, config, self._net.lag, context))

    def open(self, request: SpeechRequest, frame: int = 0) -> SentenceStream[None]:
        if request.voice not in ("", self._voice):
            raise UnknownVoice(f"this codec has no voice {request.voice!r}", param="voice")
        return SentenceStream.at(None, frame, self.spec)

    def advance(
        self, x: Tensor, told: None, kept: Kept, first: int, *, ends: bool
    ) -> tuple[Tensor, Kept]:
        del first  # only distances matter
        context = StreamContext(kept, ends=ends)
        return self._net(x, context), context.kept


@dataclass(frozen=True)
class GridSpec(CodecSpec):
    """Of a codec that decodes so many frames together, always the same ones."""

    together: int = 1

    def samples(self, frames: int, *, final: bool) -> int:
        whole = frames if final else frames - frames % self.together
        return super().samples(whole, final=final)


@dataclass(frozen=True)
class Overlap:
    """frames: decoded together. again: those before them that are decoded once more. power: fade by
    equal power, as the paper does, which is louder where both are nearly the same.
    """

    frames: int = 32
    again: int = 8
    power: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.again < self.frames:
            raise ValueError("a chunk holds more frames than are decoded again")

    def weights(self, samples: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Of the new decoding and the old one, [samples] each: their sum is 1, or their power."""
        steps = torch.arange(samples, device=like.device, dtype=like.dtype) + 0.5
        turn = steps * (math.pi / 2 / max(1, samples))
        rising, falling = turn.sin(), turn.cos()
        return (rising, falling) if self.power else (rising.square(), falling.square())


class OverlappingCodec(TacotronCodec):
    """A loaded generator, in chunks. What is kept of a sentence: the last frames that were decoded,
    their samples, and the frames of the next chunk so far.
    """

    def __init__(self, name: str, net: MelVocoder, config: HifiganConfig, overlap: Overlap) -> None:
        self._overlap = overlap
        super().__init__(name, net, config)

    def _spec(self, name: str, config: HifiganConfig) -> CodecSpec:
        frames, again = self._overlap.frames, self._overlap.again
        context = 2 * frames - 1 + again
        facts = _facts(name, config, again * config.hop_size, context)
        return GridSpec(**facts, together=frames)

    def advance(
        self, x: Tensor, told: None, kept: Kept, first: int, *, ends: bool
    ) -> tuple[Tensor, Kept]:
        before, old, waiting = (x[..., :0], x.new_zeros(0), x[..., :0]) if kept is None else kept
        first -= waiting.shape[-1]
        sounds, waiting = list[Tensor](), torch.cat((waiting, x), -1)
        for count in self._chunks(first, waiting.shape[-1], ends=ends):
            chunk, waiting = waiting[..., :count], waiting[..., count:]
            sound, before, old = self._decoded(before, old, chunk)
            sounds.append(sound)
        sounds += [old] * ends
        return torch.cat([x.new_zeros(0), *sounds]), (before, old, waiting)

    def _chunks(self, first: int, count: int, *, ends: bool) -> Iterator[int]:
        """Frames of each chunk that is whole, of so many from `first` on."""
        while count:
            due = self._overlap.frames - first % self._overlap.frames
            if due > count and not ends:
                return
            yield min(due, count)
            first, count = first + due, max(0, count - due)

    def _decoded(self, before: Tensor, old: Tensor, chunk: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Samples that are final, the frames to decode again, and their samples so far."""
        whole = torch.cat((before, chunk), -1)
        sound = self._net(whole, StreamContext(None, ends=True))
        rising, falling = self._overlap.weights(len(old), sound)
        faded = sound[: len(old)] * rising + old * falling
        sound = torch.cat((faded, sound[len(old) :]))
        again = min(self._overlap.again, whole.shape[-1])
        first = whole.shape[-1] - again
        begin = first * self._net.hop
        return sound[:begin], whole[..., first:], sound[begin:]


def _facts(name: str, config: HifiganConfig, lag: int, context: int) -> dict[str, Any]:
    """What specifications of both ways say."""
    return {
        "name": name,
        "family": "tacotron2",
        "sample_rate": config.sampling_rate,
        "samples_per_frame": config.hop_size,
        "frame": {_MEL: Field((config.num_mels,), "f4"), BEGINS: FLAG},
        "lag_samples": lag,
        "context_frames": context,
        "tolerance": TOLERANCE,
        "voices": (Voice(config.voice, config.voice.title(), "en-US"),),
    }
