"""The network of Orpheus: Llama 3.2, of whose head only what may be spoken is computed."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same
from ttsfamilies.base.lm.stack import decoder_config
from ttsfamilies.orpheus.config import END_AUDIO, END_SPEECH, LlamaConfig, load_config


class OrpheusNet(nn.Module):
    """Ids to hidden states, and those to logits of the ids that may be spoken."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.backbone = Decoder(decoder_config(config))
        if not config.tie_word_embeddings:
            self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def hidden(self, ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Ids [tokens] at positions [tokens] -> [tokens, dim]."""
        states: Tensor = self.backbone(self.embedding(ids), positions, attend)
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, dim] -> [rows, CHOICES], from END_SPEECH on."""
        head = self.embedding if self.config.tie_word_embeddings else self.head
        return nn.functional.linear(hidden, head.weight[END_SPEECH:END_AUDIO])


def sources(net: OrpheusNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {"embedding.weight": same("model.embed_tokens.weight")}
    if not net.config.tie_word_embeddings:
        found["head.weight"] = same("lm_head.weight")
    return found | decoder_sources(net.backbone.config, "backbone.", "model.")


def load_net(checkpoint: Path, device: str, dtype: str) -> OrpheusNet:
    """The network of a checkpoint folder; raises CheckpointError."""
    config = load_config(checkpoint)
    with torch.device("meta"):
        net = OrpheusNet(config).to(getattr(torch, dtype))
    # Some files repeat the embedding as the head that is tied to it.
    others = ("lm_head.",) if config.tie_word_embeddings else ()
    return filled(net, sources(net), Shards.of(checkpoint), others=others, device=device)
