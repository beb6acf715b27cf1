"""The network of a language model: embeddings, a stack of blocks, and a head."""

from __future__ import annotations

from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder, DecoderConfig
from ttscommon.engine.nn.weights import Source, decoder_sources, named
from ttsfamilies.base.lm.codes import decoder_config
from ttsfamilies.base.lm.llama import LlamaSizes


class BackboneNet(nn.Module):
    """Families say what inputs are made of, and what of states."""

    backbone: Decoder

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """States [tokens, dim] of inputs [tokens, dim] at positions [tokens]."""
        return self.backbone(x, positions, attend)


class LanguageNet(BackboneNet):
    """Ids to states, and those to logits of all ids. tied: by their embeddings."""

    def __init__(self, ids: int, stack: DecoderConfig, *, tied: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ids, stack.dim)
        self.backbone = Decoder(stack)
        self.head = None if tied else nn.Linear(stack.dim, ids, bias=False)

    def logits(self, hidden: Tensor, ids: slice = slice(None)) -> Tensor:
        """[rows, dim] -> [rows, ids], of all of them or of some."""
        head = self.embedding if self.head is None else self.head
        return nn.functional.linear(hidden, head.weight[ids])


class LlamaNet(LanguageNet):
    """Of these sizes."""

    def __init__(self, config: LlamaSizes) -> None:
        tied = config.tie_word_embeddings
        super().__init__(config.vocab_size, decoder_config(config), tied=tied)
        self.config = config


def sources(net: LlamaNet) -> dict[str, Source]:
    """Every parameter's published tensors, as transformers calls them."""
    found = named(net, {"embedding": "model.embed_tokens", "head": "lm_head"})
    return found | decoder_sources(net.backbone.config, "backbone.", "model.")
