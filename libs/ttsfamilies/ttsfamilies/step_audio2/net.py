"""The networks of Step-Audio 2: a Qwen2 over text, sound that was heard and tokens of speech."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same
from ttsfamilies.base.lm.stack import decoder_config
from ttsfamilies.step_audio2.config import StepConfig, load_config
from ttsfamilies.step_audio2.hearing import StepHearing


class StepNet(nn.Module):
    """Ids and rows to hidden states, and those to logits of all ids."""

    def __init__(self, config: StepConfig) -> None:
        super().__init__()
        self.config = config
        sizes = config.text_config
        self.embedding = nn.Embedding(sizes.vocab_size, sizes.hidden_size)
        self.backbone = Decoder(replace(decoder_config(sizes), qkv_bias=True))
        self.head = nn.Linear(sizes.hidden_size, sizes.vocab_size, bias=False)
        self.hearing = StepHearing(config.audio_encoder_config)

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Inputs [tokens, dim] at positions [tokens] -> [tokens, dim]."""
        states: Tensor = self.backbone(x, positions, attend)
        return states


def sources(net: StepNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    heard = {f"hearing.{name}": same(name) for name in net.hearing.state_dict()}
    return {
        "embedding.weight": same("model.embed_tokens.weight"),
        "head.weight": same("lm_head.weight"),
        **heard,
        **decoder_sources(net.backbone.config, "backbone.", "model."),
    }


def load_net(folder: Path, device: str, dtype: str) -> StepNet:
    """The networks of a folder; raises CheckpointError."""
    config, shards = load_config(folder), Shards.of(folder)
    with torch.device("meta"):
        net = StepNet(config).to(getattr(torch, dtype))
    filled(net, sources(net), shards, device=device)
    net.hearing.mel = type(net.hearing.mel)().to(device)  # made of numbers, not of weights
    return net
