"""Loading GLM-4-Voice's decoder, which `antiphon convert` made of its two pickles."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn.weights import Shards, filled
from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.cosyvoice.facts import HIFT
from ttsfamilies.cosyvoice.s3_flow.hift import Hift
from ttsfamilies.cosyvoice.s3_flow.sizes import flow_sizes, hift_sizes
from ttsfamilies.cosyvoice.s3_flow.weights import Within, plain, sources
from ttsfamilies.glm_voice.codec.codec import GlmVoiceCodec
from ttsfamilies.glm_voice.codec.flow import GlmFlow
from ttsfamilies.glm_voice.facts import FLOW


def load(name: str, folder: Path, how: CodecOptions) -> GlmVoiceCodec:
    """A decoder's folder as model `name`; raises CheckpointError. Windows are its own."""
    shards = Shards.of(folder)
    try:
        with torch.device("meta"):
            flow, hift = GlmFlow(flow_sizes(shards.shapes)), Hift(hift_sizes(plain(shards.shapes)))
    except (KeyError, AssertionError) as error:
        raise CheckpointError(f"{folder} holds no flow of GLM-4-Voice: {error}") from error
    _filled(flow, FLOW, shards, how.where)
    _filled(hift, HIFT, shards, how.where)
    hift.f0_predictor.double()
    return GlmVoiceCodec(name, flow, hift)


def _filled(net: nn.Module, prefixes: tuple[str, ...], shards: Shards, where: str) -> None:
    filled(net, sources(net, "", shards.shapes), Within(shards, prefixes), device=where)
