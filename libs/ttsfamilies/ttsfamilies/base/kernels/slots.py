"""Slots of a step of frames of codes, read by a kernel before it and written by one behind.

Each of these is a dozen operations of a number a row. The state has `codes` [slots, codebooks],
`seen` [slots, vocabulary], `text` [slots, tokens] of the steps, and a number a slot of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ttscommon.engine.kernels.choice import use_triton

# What a position does with the text of the steps.
NO_STEP, FED, PADDED = range(3)
# What is drawn by: whole numbers, and others.
NUMBERS: Final = ("frame", "seed", "top_k", "subtalker_top_k")
REALS: Final = (
    *("temperature", "top_p", "penalty"),
    *("subtalker_temperature", "subtalker_top_p"),
)
State = Mapping[str, Tensor]


class StepOutcome(NamedTuple):
    """What a step tells of its rows: codes [rows, 1, codebooks] int16, padded [rows, 1] uint8,
    gained [rows] int64, ended and bad [rows] bool.
    """

    codes: Tensor
    padded: Tensor
    gained: Tensor
    ended: Tensor
    bad: Tensor


def embed_codes(
    codes: Tensor, first: Tensor, others: Tensor, slots: Tensor | None = None
) -> Tensor:
    """The sum of a frame's embeddings: [..., codebooks] int64 -> [..., dim].

    first: [vocabulary, dim], of codebook 0; others: [residual codebooks * size, dim]. slots: [rows]
    int64, the rows of `codes` that are meant; None for all.
    """
    size = len(others) // (codes.shape[-1] - 1)
    if use_triton(first):
        from ttsfamilies.base.kernels import slots_triton

        return slots_triton.embed_codes(codes, first, others, slots, size)
    codes = codes if slots is None else codes[slots]
    tables = torch.arange(codes.shape[-1] - 1, device=codes.device) * size
    rest = functional.embedding(codes[..., 1:] + tables, others).sum(-2)
    return functional.embedding(codes[..., 0], first) + rest


def next_text(state: State, slots: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """The token that each row's step is told, and what the step does with the text: [rows] int64.

    A row whose token is not here yet is told `pad`.
    """
    if use_triton(slots):
        from ttsfamilies.base.kernels import slots_triton

        return slots_triton.next_text(state, slots, pad)
    told, text = state["told"][slots], state["text"]
    here = told < state["known"][slots]
    ids = text[slots, told.clamp(max=text.shape[1] - 1)].long()
    late = torch.where(state["complete"][slots] > 0, NO_STEP, PADDED)
    return torch.where(here, ids, pad), torch.where(here, FED, late)


def settings(state: State, slots: Tensor) -> dict[str, Tensor]:
    """Rows [rows] of NUMBERS and REALS, and `seen` [rows, vocabulary] bool."""
    if use_triton(slots):
        from ttsfamilies.base.kernels import slots_triton

        return slots_triton.settings(state, slots, NUMBERS, REALS)
    found = {name: state[name].index_select(0, slots) for name in ("seen", *NUMBERS, *REALS)}
    return {**found, "seen": found["seen"].bool()}


def move_on(
    state: State,
    slots: Tensor,
    real: int,
    use: Tensor,
    samples: Tensor,
    logits: Tensor,
    codes: Tensor,
    end: int,
) -> StepOutcome:
    """Put frames [rows, codebooks] int64 into the first `real` rows' slots.

    use, samples: see FramedTalker.hidden. logits: [rows, vocabulary] of codebook 0; a frame whose
    first code is `end` is none.
    """
    if use_triton(slots):
        from ttsfamilies.base.kernels import slots_triton

        told = slots, real, use, samples, logits, codes, end
        return StepOutcome(*slots_triton.move_on(state, *told))
    slots, use, samples, codes = (x[:real] for x in (slots, use, samples, codes))
    over = state["over"].index_select(0, slots) > 0
    active, stops = samples & ~over, codes[:, 0] == end
    gained = active & ~stops
    old = {n: state[n].index_select(0, slots) for n in ("codes", "seen", "frame", "told")}
    seen = old["seen"].scatter(1, codes[:, :1], 1)
    state["codes"].index_copy_(0, slots, torch.where(gained[:, None], codes, old["codes"]))
    state["seen"].index_copy_(0, slots, torch.where(gained[:, None], seen, old["seen"]))
    state["frame"].index_copy_(0, slots, old["frame"] + gained)
    state["told"].index_copy_(0, slots, old["told"] + (active & (use == FED)))
    state["over"].index_copy_(0, slots, (over | (active & stops)).long())
    return StepOutcome(
        *(codes[:, None].to(torch.int16), (use == PADDED)[:, None].to(torch.uint8)),
        *(gained.long(), active & stops, samples & ~torch.isfinite(logits[:real]).all(-1)),
    )
