"""Piper's generator in the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn

from ttscommon.engine.hub import CheckpointError
from ttscommon.engine.nn.flat import flat
from ttscommon.engine.nn.weights import filled, same, unfilled
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.causal import StreamContext
from ttsfamilies.base.codec.hifigan import PRE, Generator, ResidualSizes, Sizes, UpsampleSizes
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
from ttsfamilies.piper.voice import HOP, WINDOWS, PiperConfig, PiperVoice

_OTHERS: Final = ("enc_p.", "dp.", "flow.")


def load_generator(voice: PiperVoice, device: str) -> tuple[Generator, Tensor | None]:
    """The generator, and what it is told of each speaker, [speakers, channels, 1].

    Raises CheckpointError.
    """
    try:
        whole = nn.ModuleDict({"dec": unfilled(Generator, sizes_of(voice))})
    except (KeyError, ValueError, IndexError, RuntimeError, ZeroDivisionError) as error:
        raise CheckpointError(
            f"{voice.where('')} has no generator that is known here: {error}"
        ) from error
    stated = {name: same(name) for name in whole.state_dict()}
    net = filled(whole, stated, voice, others=(*_OTHERS, "emb_g."), device=device)["dec"]
    assert isinstance(net, Generator)
    speakers: Tensor | None = None
    if net.cond is not None:
        with torch.inference_mode():
            speakers = net.cond(voice.read("emb_g.weight").to(device)[..., None])
    flat(net)
    return net, speakers


def sizes_of(voice: PiperVoice) -> Sizes:
    """Raises KeyError or ValueError for tensors that are no generator."""
    shapes = voice.shapes
    channels, latent, kernel = shapes["dec.conv_pre.weight"]
    if kernel != PRE:
        raise ValueError(f"dec.conv_pre has {kernel} taps")
    ups = voice.count("dec.ups.{}")
    blocks = voice.count("dec.resblocks.{}") // ups
    stages = tuple(
        UpsampleSizes(
            shapes[f"dec.ups.{i}.weight"][2],
            voice.ints(f"dec.ups.{i}", "strides"),
            tuple(_block(voice, f"dec.resblocks.{i * blocks + j}") for j in range(blocks)),
        )
        for i in range(ups)
    )
    samples = 1
    for stage in stages:
        samples *= stage.rate
        if not 0 <= stage.kernel - stage.rate <= stage.rate:
            raise ValueError(f"a step up of {stage.rate} has {stage.kernel} taps")
    if samples != HOP:
        raise ValueError(f"a frame has {samples} samples, not {HOP}")
    speaker = shapes["dec.cond.weight"][1] if "dec.cond.weight" in shapes else 0
    return Sizes(latent, channels, speaker, stages)


def _block(voice: PiperVoice, name: str) -> ResidualSizes:
    paired = f"{name}.convs1.0.weight" in voice.shapes
    convs = f"{name}.convs1" if paired else f"{name}.convs"
    count = voice.count(f"{convs}.{{}}")
    dilations = tuple(voice.ints(f"{convs}.{i}", "dilations") for i in range(count))
    return ResidualSizes(voice.shapes[f"{convs}.0.weight"][2], dilations, paired)


Speaker: TypeAlias = Tensor | None


def load(name: str, place: Path, how: CodecOptions = ON_CPU) -> PiperCodec:
    """A voice's file, or its folder; raises CheckpointError."""
    voice = PiperVoice(place)
    return PiperCodec(name, voice.config, *load_generator(voice, how.where))


class PiperCodec(SentenceCodec[Speaker]):
    """A loaded generator. speakers: what it is told of each, [speakers, channels, 1]."""

    field, pieces = "z", WINDOWS

    def __init__(
        self, name: str, config: PiperConfig, net: Generator, speakers: Tensor | None
    ) -> None:
        self._net, self._speakers = net, speakers
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
        told = None if self._speakers is None else self._speakers[number : number + 1]
        return SentenceStream.at(told, frame, self.spec)

    def advance(
        self, x: Tensor, told: Speaker, kept: Kept, first: int, *, ends: bool
    ) -> tuple[Tensor, Kept]:
        del first  # only distances matter
        context = StreamContext(kept, ends=ends)
        return self._net(x, told, context), context.kept
