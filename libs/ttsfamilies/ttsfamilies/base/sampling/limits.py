"""Top-k and top-p: which ids a draw may still be. Nothing here reads a value on the host."""

from __future__ import annotations

from typing import Final

from torch import Tensor

NEVER: Final = float("-inf")


def keep_top(x: Tensor, top_k: Tensor) -> Tensor:
    """Everything but each row's `top_k` largest becomes -inf; 0 keeps all, ties stay in.

    x: [rows, ids] float32; top_k: [rows] int64.
    """
    most = x.shape[1]
    kept = top_k.masked_fill(top_k < 1, most).clamp(max=most)
    least = x.sort(-1, descending=True).values.gather(1, kept[:, None] - 1)
    return x.masked_fill(x < least, NEVER)


def keep_mass(x: Tensor, temperature: Tensor, top_p: Tensor) -> Tensor:
    """The least likely that together hold no more than 1 - top_p become -inf; 1 keeps all.

    x: [rows, ids] float32; temperature, top_p: [rows] float32. Rows of temperature 0 keep all.
    """
    rising = x.sort(-1).values
    share = (rising / temperature.clamp(min=1e-9)[:, None]).softmax(-1)
    gone = share.cumsum(-1) <= (1 - top_p)[:, None]
    first = gone.sum(-1, keepdim=True).clamp(max=x.shape[1] - 1)
    limits = (top_p < 1) & (temperature > 0)
    least = rising.gather(1, first)[:, 0].masked_fill(~limits, NEVER)
    return x.masked_fill(x < least[:, None], NEVER)
