"""Low-rank products of rows that each have an adapter of their own, or none (Chen et al., Punica).

Adapters lie in slots of fixed places, so that a recorded graph reads whatever is in them now.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import use_triton


def add_lora(x: Tensor, out: Tensor, ids: Tensor, a: Tensor, b: Tensor) -> None:
    """out[i] += b[s] @ (a[s] @ x[i]) with s = ids[i] - 1, in place; rows of id 0 stay as they are.

    x: [rows, in]; out: [rows, out], contiguous; ids: [rows] int64; a: [slots, rank, in];
    b: [slots, out, rank]. Sums are float32. Reads nothing on the host.
    """
    if use_triton(x):
        from ttscommon.engine.kernels import lora_triton

        lora_triton.add_lora(x.contiguous(), out, ids, a, b)
        return
    exact = torch.promote_types(x.dtype, torch.float32)
    for slot in range(len(a)):
        low = x.to(exact) @ a[slot].to(exact).T
        added = (out + low @ b[slot].to(exact).T).to(out.dtype)
        out.copy_(torch.where((ids == slot + 1)[:, None], added, out))
