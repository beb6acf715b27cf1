"""Sampling of codebook 0, as the official package sets it for transformers' generate.

A penalty on ids heard before, control ids never, the end not within the first two frames; these
hold under greedy choice as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsfamilies.base.sampling import Rules
from ttsfamilies.qwen3_tts.config import CONTROL_IDS, MIN_NEW_TOKENS, BackboneConfig


@dataclass(frozen=True)
class Prohibitions:
    """A checkpoint's. suppressed: [codec vocabulary] bool; eos: the id of the end; least: frames
    before which it does not come.
    """

    suppressed: Tensor
    eos: int
    least: int = MIN_NEW_TOKENS

    @classmethod
    def of(
        cls,
        c: BackboneConfig,
        device: torch.device | str = "cpu",
        least: int = MIN_NEW_TOKENS,
    ) -> Prohibitions:
        """The ids that a checkpoint's config names."""
        ids = torch.arange(c.vocab_size, device=device)
        control = ids >= c.vocab_size - CONTROL_IDS
        return cls(control & (ids != c.codec_eos_token_id), c.codec_eos_token_id, least)

    def rules(self, seen: Tensor, made: Tensor, penalty: Tensor) -> Rules:
        """A step's rules: [rows, vocabulary] bool, [rows] int64, [rows] float32; see Rules."""
        return Rules(seen, penalty, made, self.suppressed, self.eos, self.least)
