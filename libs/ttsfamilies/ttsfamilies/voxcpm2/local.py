"""Transformers within a patch, which see all of it at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Decoder, DecoderConfig, LongScaling, RopeConfig, dense_attention
from ttsfamilies.voxcpm2.sizes import LocalSizes, VoxcpmConfig


def rotation(c: VoxcpmConfig) -> RopeConfig:
    """Of all networks."""
    lm = c.lm_config
    return RopeConfig(lm.rope_theta, scaling=LongScaling(lm.factors, lm.gain))


def local_config(c: VoxcpmConfig, sizes: LocalSizes) -> DecoderConfig:
    """The stack of blocks within a patch; it has the KV heads of the language models."""
    lm = c.lm_config
    return DecoderConfig(
        dim=sizes.hidden_dim,
        layers=sizes.num_layers,
        heads=sizes.num_heads,
        kv_heads=lm.num_key_value_heads,
        head_dim=sizes.head_dim,
        hidden=sizes.ffn_dim,
        eps=lm.rms_norm_eps,
        rope=rotation(c),
    )


def attend_within(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[..., positions, heads, head_dim] each: every position sees all others."""
    del layer
    return dense_attention(q, k, v, None)


class PatchEncoder(nn.Module):
    """A patch's latents to one vector: what is behind a position that stands before them."""

    def __init__(self, c: VoxcpmConfig) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(1, 1, 1, c.encoder_config.hidden_dim))
        self.rise = nn.Linear(c.feat_dim, c.encoder_config.hidden_dim)
        self.decoder = Decoder(local_config(c, c.encoder_config))

    def forward(self, patch: Tensor) -> Tensor:
        """[patches, latents, values] -> [patches, dim]."""
        inner = self.rise(patch.to(self.rise.weight.dtype))
        x = torch.cat((self.first[0].expand(len(inner), -1, -1), inner), 1)
        positions = torch.arange(x.shape[1], device=x.device)
        found: Tensor = self.decoder(x, positions, attend_within)[:, 0]
        return found
