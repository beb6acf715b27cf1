"""The network of CosyVoice's language model: a Qwen2 over text and S3 tokens.

A position's id is a text token; or, from `vocab_size` on, a row of the speech table; or, behind
that, one of the two rows that version 2 keeps apart.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same
from ttsfamilies.base.lm.stack import decoder_config
from ttsfamilies.cosyvoice.config import V2, V3, BackboneSizes, SpeechRows, load_sizes

_OWN = ("llm.", "llm_embedding.", "speech_embedding.", "llm_decoder.")
_BACKBONE = "llm.model.model."
_UNUSED = "llm.model.lm_head."


class CosyNet(nn.Module):
    """Ids to hidden states, and those to logits of the speech table's rows."""

    def __init__(self, sizes: BackboneSizes, rows: SpeechRows) -> None:
        super().__init__()
        self.sizes, self.rows = sizes, rows
        dim = sizes.hidden_size
        self.text = nn.Embedding(sizes.vocab_size, dim)
        self.speech = nn.Embedding(rows.count, dim)
        if rows.own_table:
            self.control = nn.Embedding(2, dim)
        self.backbone = Decoder(replace(decoder_config(sizes), qkv_bias=True))
        self.head = nn.Linear(dim, rows.count, bias=rows.own_table)

    @property
    def start(self) -> int:
        """The id of the first position."""
        return self.sizes.vocab_size + self.rows.start + self._apart

    @property
    def task(self) -> int:
        """The id behind all text."""
        return self.sizes.vocab_size + self.rows.task + self._apart

    @property
    def _apart(self) -> int:
        return self.rows.count if self.rows.own_table else 0

    def embed(self, ids: Tensor) -> Tensor:
        """Ids of positions [tokens] -> [tokens, dim]."""
        behind = ids - self.sizes.vocab_size
        found = torch.where(
            (behind < 0)[:, None],
            self.text(ids.clamp(max=self.sizes.vocab_size - 1)),
            self.speech(behind.clamp(0, self.rows.count - 1)),
        )
        if not self.rows.own_table:
            return found
        row = behind - self.rows.count
        return torch.where((row >= 0)[:, None], self.control(row.clamp(0, 1)), found)

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Inputs [tokens, dim] at positions [tokens] -> [tokens, dim]."""
        states: Tensor = self.backbone(x, positions, attend)
        return states


def sources(net: CosyNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {
        "text.weight": same(f"{_BACKBONE}embed_tokens.weight"),
        "speech.weight": same("speech_embedding.weight"),
        "head.weight": same("llm_decoder.weight"),
    }
    if net.rows.own_table:
        found["control.weight"] = same("llm_embedding.weight")
        found["head.bias"] = same("llm_decoder.bias")
    return found | decoder_sources(net.backbone.config, "backbone.", _BACKBONE)


def load_net(folder: Path, device: str, dtype: str) -> CosyNet:
    """The language model of a folder; raises CheckpointError."""
    sizes, shards = load_sizes(folder), Shards.of(folder)
    rows = V2 if "llm_embedding.weight" in shards.shapes else V3
    with torch.device("meta"):
        net = CosyNet(sizes, rows).to(getattr(torch, dtype))
    others = (_UNUSED, *(name for name in shards.shapes if not name.startswith(_OWN)))
    return filled(net, sources(net), shards, others=others, device=device)
