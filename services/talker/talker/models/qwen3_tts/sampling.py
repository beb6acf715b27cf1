"""Rules of sampling, as the official package sets them for transformers' generate.

Codebook 0: a penalty on ids heard before, control ids never, the end not within the first two
frames; these hold under greedy choice as well. Then, for all codebooks, temperature, top-k and
top-p. All of it works on tensors with a row a stream, without a look at their values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from talker.models.qwen3_tts.config import CONTROL_IDS, MIN_NEW_TOKENS, BackboneConfig

_NEVER = float("-inf")


@dataclass(frozen=True)
class Rules:
    """What codebook 0 may be. suppressed: [codec vocabulary] bool; eos: the id of the end."""

    suppressed: Tensor
    eos: int
    least_frames: int = MIN_NEW_TOKENS

    @classmethod
    def of(cls, c: BackboneConfig, device: torch.device | str = "cpu") -> Rules:
        """The rules of a checkpoint."""
        ids = torch.arange(c.vocab_size, device=device)
        control = ids >= c.vocab_size - CONTROL_IDS
        return cls(control & (ids != c.codec_eos_token_id), c.codec_eos_token_id)

    def constrain(self, logits: Tensor, seen: Tensor, made: Tensor, penalty: Tensor) -> Tensor:
        """Codebook 0's logits after penalty and prohibitions, [rows, vocabulary] float32.

        seen: [rows, vocabulary] bool, ids chosen so far; made: [rows] int, frames so far;
        penalty: [rows] float32, 1 for none.
        """
        punished = torch.where(logits < 0, logits * penalty[:, None], logits / penalty[:, None])
        logits = torch.where(seen, punished, logits).masked_fill(self.suppressed, _NEVER)
        ids = torch.arange(logits.shape[1], device=logits.device)
        early = (made < self.least_frames)[:, None] & (ids == self.eos)
        return logits.masked_fill(early, _NEVER)


def warp(logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Logits of what sampling may still draw, everything else -inf.

    logits: [rows, vocabulary] float32; temperature: [rows] > 0; top_k: [rows] int64, 0 for all;
    top_p: [rows], 1 for all. Ties at the edge of the top k stay in.
    """
    logits = logits / temperature[:, None]
    vocabulary = logits.shape[1]
    falling, order = logits.sort(-1, descending=True)
    kept = torch.where(top_k > 0, top_k, vocabulary).clamp(max=vocabulary)
    least = falling.gather(1, kept[:, None] - 1)
    falling = falling.masked_fill(falling < least, _NEVER)
    share = falling.softmax(-1)
    # An id goes when the ids below it, with it, hold no more than what top_p leaves out.
    below = share.flip(-1).cumsum(-1).flip(-1)
    gone = below <= (1 - top_p)[:, None]
    gone[:, 0] = False
    falling = torch.where(gone & (top_p < 1)[:, None], _NEVER, falling)
    return torch.empty_like(logits).scatter_(1, order, falling)
