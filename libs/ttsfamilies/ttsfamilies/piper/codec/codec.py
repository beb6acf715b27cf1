"""Piper's generator in the engine."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from torch import Tensor

from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.hifigan import Generator
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.receptive_field import left_context
from ttsfamilies.base.codec.sentences import (
    BEGINS,
    FLAG,
    TOLERANCE,
    Kept,
    SentenceCodec,
    SentenceStream,
)
from ttsfamilies.base.codec.streaming_convolutions import StreamContext
from ttsfamilies.piper.codec.net import load_generator
from ttsfamilies.piper.voice import HOP, PiperConfig, PiperVoice

Speaker: TypeAlias = Tensor | None


def load(name: str, place: Path, how: CodecOptions = ON_CPU) -> PiperCodec:
    """A voice's file, or its folder; raises CheckpointError."""
    voice = PiperVoice(place)
    return PiperCodec(name, voice.config, *load_generator(voice, how.where))


class PiperCodec(SentenceCodec[Speaker]):
    """A loaded generator. speakers: what it is told of each, [speakers, channels, 1]."""

    field = "z"

    def __init__(
        self, name: str, config: PiperConfig, net: Generator, speakers: Tensor | None
    ) -> None:
        self._net, self._told = net, speakers
        self.device = net.conv_pre.weight.device
        self._numbers, sizes = config.speakers(), net.sizes
        self.spec = CodecSpec(
            name,
            "piper",
            config.audio.sample_rate,
            HOP,
            {self.field: Field((sizes.latent,), "f4"), BEGINS: FLAG},
            lag_samples=sizes.lag,
            context_frames=left_context(sizes.lag, HOP, sizes.context),
            tolerance=TOLERANCE,
            voices=config.voices(),
        )

    def open(self, request: SpeechRequest, frame: int = 0) -> SentenceStream[Speaker]:
        number = self._numbers.get(request.voice)
        if number is None:
            raise UnknownVoice(f"this codec has no voice {request.voice!r}", param="voice")
        told = None if self._told is None else self._told[number : number + 1]
        return SentenceStream.at(told, frame, self.spec)

    def advance(
        self, x: Tensor, told: Speaker, kept: Kept, first: int, *, ends: bool
    ) -> tuple[Tensor, Kept]:
        del first  # only distances matter
        context = StreamContext(kept, ends=ends)
        return self._net(x, told, context), context.kept
