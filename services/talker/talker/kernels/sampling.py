"""One id a row, by penalty, prohibitions, top-k, top-p and keyed noise.

The noise is a pure function of (seed, frame, draw, id), the same 24 bits in every version. Only its
logarithms may differ in their last bit from one machine to another, so ids agree except where two
candidates are as close as that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from talker.kernels.rules import Rules
from talker.sampling import draw as sampling
from talker.sampling.draw import draw_keys, frame_keys, uniforms
from ttscommon.engine.kernels.choice import use_triton

_NEVER = float("-inf")
# What one program of the kernel holds of a row; larger vocabularies are sampled by the twin.
MOST_IDS = 8192


@dataclass(frozen=True)
class Noise:
    """Where a step's random numbers come from: [rows] int64 each."""

    seed: Tensor
    frame: Tensor

    @cached_property
    def keys(self) -> Tensor:
        """What all draws of a frame have in common."""
        return frame_keys(self.seed, self.frame)


def draw_ids(
    logits: Tensor,
    noise: Noise,
    draw: int,
    *,
    temperature: Tensor,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
    rules: Rules | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw number `draw` of a step: [rows, vocabulary] -> ids [rows] int64, finite [rows] bool.

    draw: the codebook, or a negative number for what is of no codebook. temperature: [rows]
    float32, 0 is greedy. top_k: [rows] int64, 0 for all. top_p: [rows] float32, 1 for all. Ties at
    the edge of either stay in. `finite` is of the logits as they came; a row that is not draws
    from its finite logits, or id 0. Nothing is read back to the host.
    """
    if use_triton(logits) and logits.shape[1] <= MOST_IDS:
        from talker.kernels import sampling_triton

        logits = logits if logits.stride(1) == 1 else logits.contiguous()
        return sampling_triton.sample(
            logits, noise.seed, noise.frame, draw, temperature, top_k, top_p, rules
        )
    if logits.device.type == "cpu" and top_p is None and rules is None:
        # The CPU may look at its parameters, and skips what they leave out.
        key, finite = draw_keys(noise.keys, draw), logits.isfinite().all(-1)
        return sampling.sample(logits, key, temperature=temperature, top_k=top_k), finite
    return sample(logits, noise, draw, temperature, top_k, top_p, rules)


def sample(
    logits: Tensor,
    noise: Noise,
    draw: int,
    temperature: Tensor,
    top_k: Tensor | None,
    top_p: Tensor | None,
    rules: Rules | None,
) -> tuple[Tensor, Tensor]:
    """The twin of sampling_triton.sample."""
    x = logits.float()
    finite = x.isfinite()
    allowed = finite
    if rules is not None:
        x, allowed = _constrained(x, finite, rules)
    x = x.masked_fill(~allowed, _NEVER)
    if top_k is not None:
        x = keep_top(x, top_k)
    if top_p is not None:
        x = keep_mass(x, temperature, top_p)
    gumbel = -torch.log(-torch.log(uniforms(draw_keys(noise.keys, draw), x.shape[1])))
    return (x + gumbel * temperature[:, None]).argmax(-1), finite.all(-1)


def _constrained(x: Tensor, finite: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """Logits after the penalty, and which ids may be drawn."""
    penalty = rules.penalty[:, None]
    x = torch.where(rules.seen, torch.where(x < 0, x * penalty, x / penalty), x)
    ids = torch.arange(x.shape[1], device=x.device)
    early = (rules.made < rules.least_frames)[:, None] & (ids == rules.end)
    return x, finite & ~rules.suppressed & ~early


def keep_top(x: Tensor, top_k: Tensor) -> Tensor:
    """Everything but each row's `top_k` largest becomes -inf; 0 keeps all."""
    vocabulary = x.shape[1]
    kept = torch.where(top_k > 0, top_k, vocabulary).clamp(max=vocabulary)
    least = x.sort(-1, descending=True).values.gather(1, kept[:, None] - 1)
    return x.masked_fill(x < least, _NEVER)


def keep_mass(x: Tensor, temperature: Tensor, top_p: Tensor) -> Tensor:
    """The least likely that together hold no more than 1 - top_p become -inf; 1 keeps all."""
    rising = x.sort(-1).values
    share = (rising / temperature.clamp(min=1e-9)[:, None]).softmax(-1)
    gone = share.cumsum(-1) <= (1 - top_p)[:, None]
    first = gone.sum(-1, keepdim=True).clamp(max=x.shape[1] - 1)
    least = torch.where((top_p < 1) & (temperature > 0), rising.gather(1, first)[:, 0], _NEVER)
    return x.masked_fill(x < least[:, None], _NEVER)
