"""The networks of CSM: a Llama over turns and frames, and one over the codes of a frame.

A position's input is a text token, or the sum of a frame's codes. One table embeds codes for both.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Attend, Decoder
from ttscommon.engine.nn.mimi import MimiEncoder, encoder_sources
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same
from ttsfamilies.base.lm.depth import CodeDraw, DepthTransformer
from ttsfamilies.base.lm.stack import decoder_config
from ttsfamilies.csm.config import CsmConfig, load_config

CODEC: Final = "codec_model."
_DEPTH: Final = "depth_decoder.model."
# Files have one of them or both.
_TABLES: Final = (
    f"{_DEPTH}embed_tokens.weight",
    "backbone_model.embed_tokens.embed_audio_tokens.weight",
)


class CsmDepth(DepthTransformer):
    """codes: [codebooks * vocabulary, backbone dim]; heads: [residuals, dim, vocabulary]."""

    def __init__(self, c: CsmConfig) -> None:
        depth = c.depth_decoder_config
        super().__init__(replace(decoder_config(depth), fp32_qkv=True), c.num_codebooks - 1)
        self.size = c.vocab_size
        self.codes = nn.Embedding(c.num_codebooks * c.vocab_size, c.hidden_size)
        self.project = nn.Linear(c.hidden_size, depth.hidden_size, bias=False)
        self.heads = nn.Parameter(torch.empty(self.residuals, depth.hidden_size, c.vocab_size))

    def table(self, codebook: int) -> Tensor:
        return self.codes.weight[codebook * self.size : (codebook + 1) * self.size]

    def head(self, codebook: int) -> Tensor:
        return self.heads[codebook - 1].T


class CsmNet(nn.Module):
    """All parts of the talker. Methods work on any leading dimensions unless said otherwise."""

    def __init__(self, config: CsmConfig) -> None:
        super().__init__()
        self.config = config
        self.text = nn.Embedding(config.text_vocab_size, config.hidden_size)
        self.backbone = Decoder(decoder_config(config))
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.depth = CsmDepth(config)

    def embed_frames(self, codes: Tensor) -> Tensor:
        """Frames [..., codebooks] int64 -> the sum of their codes' embeddings [..., dim]."""
        tables = torch.arange(self.config.num_codebooks, device=codes.device) * self.depth.size
        return nn.functional.embedding(codes + tables, self.depth.codes.weight).sum(-2)

    def embed(self, text: Tensor, codes: Tensor) -> Tensor:
        """Text ids [tokens] int64, -1 where frames [tokens, codebooks] stand -> [tokens, dim]."""
        said = self.text(text.clamp(min=0))
        return torch.where((text < 0)[:, None], self.embed_frames(codes), said)

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Backbone states [tokens, dim] of inputs [tokens, dim] at positions [tokens]."""
        states: Tensor = self.backbone(x, positions, attend)
        return states

    def frames(self, hidden: Tensor, pick: CodeDraw) -> tuple[Tensor, Tensor]:
        """[rows, dim] -> codes [rows, codebooks] int64, finite [rows] bool."""
        logits = self.head(hidden).float()
        code0 = pick(logits, 0)
        residuals = self.depth(hidden, self.depth.embed(code0, 0), pick)
        return torch.cat((code0[:, None], residuals), 1), logits.isfinite().all(-1)


def sources(net: CsmNet, table: str = _TABLES[0]) -> dict[str, Source]:
    """Every parameter's published tensors. table: the name that the embedding of codes has."""
    found = {
        "text.weight": same("embed_text_tokens.weight"),
        "head.weight": same("lm_head.weight"),
        "depth.codes.weight": same(table),
        "depth.project.weight": same(f"{_DEPTH}inputs_embeds_projector.weight"),
        "depth.heads": same("depth_decoder.codebooks_head.weight"),
    }
    found |= decoder_sources(net.backbone.config, "backbone.", "backbone_model.")
    return found | decoder_sources(net.depth.decoder.config, "depth.decoder.", _DEPTH)


def load_net(checkpoint: Path, device: str, dtype: str) -> CsmNet:
    """The talker of a checkpoint folder; raises CheckpointError."""
    shards = Shards.of(checkpoint)
    with torch.device("meta"):
        net = CsmNet(load_config(checkpoint)).to(getattr(torch, dtype))
    net.depth.decoder.keep_float32(device)
    table = next((name for name in _TABLES if name in shards.shapes), _TABLES[0])
    stated, others = sources(net, table), (CODEC, *_TABLES)
    return filled(net, stated, shards, others=others, device=device)


def load_encoder(checkpoint: Path, device: str) -> MimiEncoder:
    """What turns recordings into codes; raises CheckpointError."""
    sizes, shards = load_config(checkpoint).codec_config, Shards.of(checkpoint)
    with torch.device("meta"):
        net = MimiEncoder(sizes, sizes.num_quantizers, sizes.sliding_window)
    unused = (f"{CODEC}{part}" for part in ("decoder", "upsample.", "quantizer."))
    others = (*unused, *(name for name in shards.shapes if not name.startswith(CODEC)))
    return filled(net, encoder_sources(net, CODEC), shards, others=others, device=device)
