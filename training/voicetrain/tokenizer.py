"""The tokenizer: mel spectra at 100 Hz to 4 codes at 25 Hz, codebook 0 taught by phones.

Trained together with the decoder of `vocoder.codecs.cantor_net`, which is all that serving needs.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from talker.text.symbols import SYMBOLS
from ttscommon.nn import ConvNeXt
from vocoder.codecs.cantor_net import HOPS_PER_FRAME, MELS, CantorDecoder

ENCODER_DIM = 256
ENCODER_LAYERS = 4
PHONE_HOPS = (1, 2)
_DECAY = 0.98
_DEAD = 0.08


class Quantised(NamedTuple):
    """What quantisation gives: the sum of entries, the first entry, and the codes."""

    total: Tensor
    first: Tensor
    codes: Tensor


class Quantiser(nn.Module):
    """Residual vector quantisation; codebooks follow their members by moving averages.

    The codebooks are the decoder's own parameter, [codebooks, size, dim], written in place.
    """

    counts: Tensor
    sums: Tensor

    def __init__(self, tables: nn.Parameter) -> None:
        super().__init__()
        self.tables = tables
        tables.requires_grad_(False)
        self.register_buffer("counts", torch.zeros(tables.shape[:2]))
        self.register_buffer("sums", torch.zeros_like(tables))

    def forward(self, z: Tensor, depth: int | None = None) -> Quantised:
        """[..., dim] -> its quantisation by the first `depth` codebooks."""
        flat = z.detach().reshape(-1, z.shape[-1])
        rest, codes, first = flat, [], flat
        for i in range(depth or len(self.tables)):
            if self.training:
                self._begin(i, rest)
            table = self.tables[i]
            distance = (table**2).sum(-1) - 2 * rest @ table.T
            chosen = distance.argmin(-1)
            entry = table[chosen]
            codes.append(chosen)
            if self.training:
                self._follow(i, rest, chosen)
            rest = rest - entry
            if i == 0:
                first = entry
        together = torch.stack(codes, -1).view(*z.shape[:-1], -1)
        return Quantised((flat - rest).view(z.shape), first.view(z.shape), together)

    @torch.no_grad()
    def _begin(self, i: int, rest: Tensor) -> None:
        if self.counts[i].sum() > 0:
            return
        picked = rest[torch.randint(len(rest), (self.tables.shape[1],), device=rest.device)]
        self.tables[i] = picked + 1e-3 * torch.randn_like(picked)
        self.sums[i], self.counts[i] = self.tables[i], 1.0

    @torch.no_grad()
    def _follow(self, i: int, rest: Tensor, chosen: Tensor) -> None:
        size = self.tables.shape[1]
        members = torch.bincount(chosen, minlength=size).float()
        sums = torch.zeros_like(self.sums[i]).index_add_(0, chosen, rest)
        self.counts[i].mul_(_DECAY).add_(members, alpha=1 - _DECAY)
        self.sums[i].mul_(_DECAY).add_(sums, alpha=1 - _DECAY)
        self.tables[i] = self.sums[i] / self.counts[i].clamp_min(1e-3)[:, None]
        dead = self.counts[i] < _DEAD
        if dead.any():
            revived = rest[torch.randint(len(rest), (int(dead.sum()),), device=rest.device)]
            self.tables[i, dead] = revived
            self.sums[i, dead], self.counts[i, dead] = revived, 1.0


class Tokenizer(nn.Module):
    """Encoder, quantiser and phone classifier around a decoder's mel half."""

    def __init__(self, decoder: CantorDecoder) -> None:
        super().__init__()
        dim = decoder.config.code_dim
        self.encoder_in = nn.Linear(MELS * HOPS_PER_FRAME, ENCODER_DIM)
        self.encoder = nn.Sequential(
            *(ConvNeXt(ENCODER_DIM, 5, 2, causal=False) for _ in range(ENCODER_LAYERS))
        )
        self.encoder_out = nn.Linear(ENCODER_DIM, dim)
        self.phones = nn.Linear(dim, len(PHONE_HOPS) * len(SYMBOLS))
        self.quantiser = Quantiser(decoder.codes)

    def encode(self, mel: Tensor) -> Tensor:
        """Normalised log mel [batch, hops, mels] -> [batch, frames, code_dim]."""
        batch, hops, _ = mel.shape
        frames = mel.reshape(batch, hops // HOPS_PER_FRAME, -1)
        out: Tensor = self.encoder_out(self.encoder(self.encoder_in(frames)))
        return out

    @torch.no_grad()
    def codes(self, mel: Tensor) -> Tensor:
        """Normalised log mel [batch, hops, mels] -> codes [batch, frames, codebooks] int64."""
        return self.quantiser(self.encode(mel)).codes

    def phone_logits(self, first: Tensor) -> Tensor:
        """[batch, frames, code_dim] -> [batch, frames, 2, symbols]."""
        return self.phones(first).unflatten(-1, (len(PHONE_HOPS), len(SYMBOLS)))
