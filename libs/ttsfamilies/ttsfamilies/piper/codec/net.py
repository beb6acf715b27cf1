"""The generator of a Piper voice, with the sizes that its file has."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.hub import CheckpointError
from ttscommon.engine.nn.flat import flat
from ttscommon.engine.nn.weights import filled, same
from ttsfamilies.base.codec.hifigan import PRE, Block, Generator, Sizes, Stage
from ttsfamilies.piper.voice import HOP, PiperVoice

_OTHERS: Final = ("enc_p.", "dp.", "flow.")


def load_generator(voice: PiperVoice, device: str) -> tuple[Generator, Tensor | None]:
    """The generator, and what it is told of each speaker, [speakers, channels, 1].

    Raises CheckpointError.
    """
    try:
        with torch.device("meta"):
            whole = nn.ModuleDict({"dec": Generator(sizes_of(voice))})
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
        Stage(
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


def _block(voice: PiperVoice, name: str) -> Block:
    paired = f"{name}.convs1.0.weight" in voice.shapes
    convs = f"{name}.convs1" if paired else f"{name}.convs"
    count = voice.count(f"{convs}.{{}}")
    dilations = tuple(voice.ints(f"{convs}.{i}", "dilations") for i in range(count))
    return Block(voice.shapes[f"{convs}.0.weight"][2], dilations, paired)
