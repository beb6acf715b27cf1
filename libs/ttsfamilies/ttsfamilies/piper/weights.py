"""From a voice's file to its network: sizes follow from the tensors."""

from __future__ import annotations

import torch
from torch import nn

from ttscommon.engine.hub import CheckpointError
from ttscommon.engine.nn.flat import flat
from ttscommon.engine.nn.weights import filled, same
from ttsfamilies.piper.net import Durations, Encoder, Flow, TextEncoder, Vits
from ttsfamilies.piper.voice import PiperVoice

_HEADS = 2
_GENERATOR = ("dec.",)


def load_net(voice: PiperVoice, device: str) -> Vits:
    """Raises CheckpointError, which names what is missing, surplus or of a wrong shape."""
    try:
        with torch.device("meta"):
            net = _shaped(voice)
    except (KeyError, ValueError, IndexError, RuntimeError, ZeroDivisionError) as error:
        raise CheckpointError(
            f"{voice.where('')} is no VITS network that is known here: {error}"
        ) from error
    sources = {name: same(name) for name in net.state_dict()}
    filled(net, sources, voice, others=_GENERATOR, device=device)
    flat(net.flow)
    return net


def _shaped(voice: PiperVoice) -> Vits:
    shapes = voice.shapes
    symbols, channels = shapes["enc_p.emb.weight"]
    filters, _, kernel = shapes["enc_p.encoder.ffn_layers.0.conv_1.weight"]
    latent = shapes["enc_p.proj.weight"][0] // 2
    encoder = Encoder(
        voice.count("enc_p.encoder.attn_layers.{}"), channels, filters, _HEADS, kernel
    )
    speakers, speaker = shapes.get("emb_g.weight", (0, 0))
    durations, text, _ = shapes["dp.pre.weight"]
    _, _, narrow = shapes["dp.convs.convs_sep.0.weight"]
    layers = voice.count("dp.convs.convs_sep.{}")
    hidden, _, _ = shapes["flow.flows.0.pre.weight"]
    _, _, wide = shapes["flow.flows.0.enc.in_layers.0.weight"]
    gates = voice.count("flow.flows.0.enc.in_layers.{}")
    if any(voice.ints(f"flow.flows.0.enc.in_layers.{i}", "dilations") != 1 for i in range(gates)):
        raise CheckpointError(f"{voice.where('')}: the flow's convolutions are dilated")
    return Vits(
        TextEncoder(symbols, channels, latent, encoder),
        Durations(text, durations, speaker, layers, narrow),
        Flow(latent, hidden, gates, wide, speaker),
        nn.Embedding(speakers, speaker) if speakers else None,
    )
