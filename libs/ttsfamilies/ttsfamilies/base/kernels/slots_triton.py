"""Rows of slots, read and moved on; one program a row, or a row and a part of its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

_PART: Final = 512

# As `slots` has them, which imports this module.
_NO_STEP, _FED, _PADDED = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def embed_rows(
    codes,
    slots,
    first,
    others,
    out,
    codes_stride,
    SIZE: tl.constexpr,
    CODEBOOKS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_SLOTS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < DIM
    slot = row
    if HAS_SLOTS:
        slot = tl.load(slots + row)
    here = codes + slot * codes_stride
    rest = tl.zeros([BLOCK], tl.float32)
    for codebook in tl.static_range(1, CODEBOOKS):
        place = tl.load(here + codebook) + (codebook - 1) * SIZE
        rest += tl.load(others + place * DIM + at, mask=inside, other=0.0).to(tl.float32)
    found = tl.load(first + tl.load(here) * DIM + at, mask=inside, other=0.0).to(tl.float32)
    # Rounded twice, as the sum of two tensors is.
    found += rest.to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + row * DIM + at, found, mask=inside)


@triton.jit
def text_rows(
    slots, told, known, complete, text, text_out, use_out, stride, text_stride, tokens, pad
):
    row = tl.program_id(0)
    slot = tl.load(slots + row)
    step = tl.load(told + slot * stride)
    here = step < tl.load(known + slot * stride)
    token = tl.load(text + slot * text_stride + tl.minimum(step, tokens - 1)).to(tl.int64)
    late = tl.where(tl.load(complete + slot * stride) > 0, _NO_STEP, _PADDED)
    tl.store(text_out + row, tl.where(here, token, pad))
    tl.store(use_out + row, tl.where(here, _FED, late))


@triton.jit
def settings_rows(
    slots,
    frame,
    seed,
    top_k,
    subtalker_top_k,
    temperature,
    top_p,
    penalty,
    subtalker_temperature,
    subtalker_top_p,
    seen,
    numbers_out,
    reals_out,
    seen_out,
    rows,
    stride,
    real_stride,
    seen_stride,
    vocabulary,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row)
    number, real = slot * stride, slot * real_stride
    tl.store(numbers_out + row, tl.load(frame + number))
    tl.store(numbers_out + rows + row, tl.load(seed + number))
    tl.store(numbers_out + 2 * rows + row, tl.load(top_k + number))
    tl.store(numbers_out + 3 * rows + row, tl.load(subtalker_top_k + number))
    tl.store(reals_out + row, tl.load(temperature + real))
    tl.store(reals_out + rows + row, tl.load(top_p + real))
    tl.store(reals_out + 2 * rows + row, tl.load(penalty + real))
    tl.store(reals_out + 3 * rows + row, tl.load(subtalker_temperature + real))
    tl.store(reals_out + 4 * rows + row, tl.load(subtalker_top_p + real))
    at = tl.arange(0, BLOCK)
    inside = at < vocabulary
    known = tl.load(seen + slot * seen_stride + at, mask=inside, other=0) != 0
    tl.store(seen_out + row * vocabulary + at, known, mask=inside)


@triton.jit
def move_rows_on(
    slots,
    use,
    samples,
    logits,
    codes,
    state_codes,
    seen,
    frame,
    told,
    over,
    codes_out,
    padded_out,
    gained_out,
    ended_out,
    bad_out,
    stride,
    codes_stride,
    seen_stride,
    end,
    vocabulary,
    CODEBOOKS: tl.constexpr,
    CODES_BLOCK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    slot, what = tl.load(slots + row), tl.load(use + row)
    wanted = tl.load(samples + row) != 0
    ids, at = tl.arange(0, BLOCK), tl.arange(0, CODES_BLOCK)
    inside = at < CODEBOOKS
    x = tl.load(logits + row * vocabulary + ids, mask=ids < vocabulary, other=0.0)
    infinite = tl.max((tl.abs(x.to(tl.float32)) < float("inf")).to(tl.int32) ^ 1) > 0
    first = tl.load(codes + row * CODEBOOKS)
    frame_codes = tl.load(codes + row * CODEBOOKS + at, mask=inside, other=0)
    number = slot * stride
    was_over = tl.load(over + number) > 0
    active, stops = wanted & (was_over == 0), first == end
    gained, ended = active & (stops == 0), active & stops
    made, heard = tl.load(frame + number), tl.load(told + number)
    tl.debug_barrier()  # all threads have read what is written now
    tl.store(state_codes + slot * codes_stride + at, frame_codes, mask=inside & gained)
    tl.store(seen + slot * seen_stride + first, 1, mask=gained)
    tl.store(frame + number, made + gained.to(tl.int64))
    tl.store(told + number, heard + (active & (what == _FED)).to(tl.int64))
    tl.store(over + number, (was_over | ended).to(tl.int64))
    tl.store(codes_out + row * CODEBOOKS + at, frame_codes.to(tl.int16), mask=inside)
    tl.store(padded_out + row, (what == _PADDED).to(tl.uint8))
    tl.store(gained_out + row, gained.to(tl.int64))
    tl.store(ended_out + row, ended)
    tl.store(bad_out + row, wanted & infinite)


def embed_codes(
    codes: Tensor, first: Tensor, others: Tensor, slots: Tensor | None, size: int
) -> Tensor:
    """See ttsfamilies.base.kernels.slots.embed_codes."""
    flat = codes.flatten(0, -2)
    flat = flat if flat.stride(1) == 1 else flat.contiguous()
    rows, dim = len(flat if slots is None else slots), first.shape[1]
    out = first.new_empty(rows, dim)
    embed_rows[(rows, triton.cdiv(dim, _PART))](
        *(flat, flat if slots is None else slots, first, others, out, flat.stride(0)),
        SIZE=size,
        CODEBOOKS=flat.shape[1],
        DIM=dim,
        BLOCK=min(_PART, triton.next_power_of_2(dim)),
        HAS_SLOTS=slots is not None,
    )
    return out if slots is not None else out.view(*codes.shape[:-1], dim)


def next_text(state: Mapping[str, Tensor], slots: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """See ttsfamilies.base.kernels.slots.next_text."""
    text, told = state["text"], state["told"]
    ids, use = slots.new_empty(2, len(slots)).unbind()
    text_rows[(len(slots),)](
        *(slots, told, state["known"], state["complete"], text, ids, use),
        *(told.stride(0), text.stride(0), text.shape[1], pad),
        num_warps=1,
    )
    return ids, use


def settings(
    state: Mapping[str, Tensor], slots: Tensor, whole: Sequence[str], others: Sequence[str]
) -> dict[str, Tensor]:
    """See ttsfamilies.base.kernels.slots.settings."""
    rows, seen = len(slots), state["seen"]
    numbers = slots.new_empty(len(whole), rows)
    reals = state[others[0]].new_empty(len(others), rows)
    known = seen.new_empty(rows, seen.shape[1], dtype=torch.bool)
    settings_rows[(rows,)](
        *(slots, *(state[name] for name in (*whole, *others)), seen, numbers, reals, known),
        *(rows, state["frame"].stride(0), state[others[0]].stride(0), seen.stride(0)),
        seen.shape[1],
        BLOCK=triton.next_power_of_2(seen.shape[1]),
    )
    named = {**dict(zip(whole, numbers, strict=True)), **dict(zip(others, reals, strict=True))}
    return {"seen": known, **named}


def move_on(
    state: Mapping[str, Tensor],
    slots: Tensor,
    real: int,
    use: Tensor,
    samples: Tensor,
    logits: Tensor,
    codes: Tensor,
    end: int,
) -> tuple[Tensor, ...]:
    """See ttsfamilies.base.kernels.slots.move_on."""
    codebooks, vocabulary = codes.shape[1], logits.shape[1]
    made = slots.new_empty(real, 1, codebooks, dtype=torch.int16)
    padded = slots.new_empty(real, 1, dtype=torch.uint8)
    gained = slots.new_empty(real)
    ended, bad = slots.new_empty(2, real, dtype=torch.bool).unbind()
    kept = {name: state[name] for name in ("codes", "seen", "frame", "told", "over")}
    strides = (kept[name].stride(0) for name in ("frame", "codes", "seen"))
    move_rows_on[(real,)](
        *(slots, use, samples, logits.contiguous(), codes.contiguous(), *kept.values()),
        *(made, padded, gained, ended, bad, *strides, end, vocabulary),
        CODEBOOKS=codebooks,
        CODES_BLOCK=triton.next_power_of_2(codebooks),
        BLOCK=triton.next_power_of_2(vocabulary),
    )
    return made, padded, gained, ended, bad
