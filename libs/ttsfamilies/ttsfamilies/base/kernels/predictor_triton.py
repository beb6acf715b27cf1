"""A frame's residual codes in one kernel that stays on the device: products, attention, draws.

A predictor's pass is so small that launches would take longer than its work. Here as many programs
as there are processors go through the phases of all passes together, and wait for each other
between two. A phase is cut into tiles, which the programs take in turn:

    enter; for each layer: qkv, attend, out, gate and up, down; head; draw

The first two positions, the backbone's state and codebook 0, are a pass each. Sums are float32;
the residual stream and what products are fed are as narrow as the weights; a norm's scale is
multiplied behind the product it stands in front of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import triton
import triton.language as tl
from torch import Tensor, float32, int32, zeros
from torch import int64 as torch_int64

from ttsfamilies.base.kernels.frame_triton import _halves, _turned
from ttsfamilies.base.kernels.stacked import NARROW, Stacked
from ttsfamilies.base.sampling import Noise, Settings
from ttsfamilies.base.sampling.draw_triton import _choose, _uniforms

_LAYER_PHASES: Final = 5
_LEAST_ROWS: Final = 16  # of a product on tensor cores
_MOST_ROWS: Final = 32  # more of them at once, and registers are spilled
# With fewer warps or more stages of loads ahead, registers are spilled where there are 255.
SHAPE: Final = {"num_warps": 8, "num_stages": 2}


@triton.jit
def _product(
    x,
    lines,
    real,
    weight,
    columns,
    norm,
    eps,
    SIZE: tl.constexpr,
    STEP: tl.constexpr,
    HAS_NORM: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Rows `lines` of x [.., SIZE] times rows `columns` of weight: [lines, columns] float32."""
    at = tl.arange(0, STEP)
    summed = tl.zeros((lines.shape[0], columns.shape[0]), tl.float32)
    squares = tl.zeros((lines.shape[0],), tl.float32)
    for begin in range(0, SIZE, STEP):
        here = lines[:, None] * SIZE + (begin + at)[None, :]
        left = tl.load(x + here, mask=real[:, None], other=0.0)
        right = tl.load(weight + columns[None, :].to(tl.int64) * SIZE + (begin + at)[:, None])
        if HAS_NORM:
            exact = left.to(tl.float32)
            squares += tl.sum(exact * exact, 1)
            factor = tl.load(norm + begin + at).to(tl.float32)
            left = (exact * factor[None, :]).to(right.dtype)
        summed = tl.dot(left, right, summed, input_precision=PRECISION)
    if HAS_NORM:
        summed *= tl.rsqrt(squares / SIZE + eps)[:, None]
    return summed


@triton.jit
def _attend(
    product,
    keys,
    values,
    out,
    q_norm,
    k_norm,
    cosines,
    sines,
    row,
    head,
    position,
    eps,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    """A row's queries of one KV head over the frame so far; its key and value are stored."""
    DIM: tl.constexpr = 2 * HALF
    GROUP: tl.constexpr = HEADS // KV_HEADS
    at, past = tl.arange(0, HALF), tl.arange(0, POSITIONS)
    inside, angle = at < HALF, position * HALF
    line = product + row.to(tl.int64) * (HEADS + 2 * KV_HEADS) * DIM
    key = line + (HEADS + head) * DIM
    low, high = _halves(key, at, inside, HALF)
    squares = tl.sum(low * low + high * high, 0)
    low, high = _turned(
        low, high, squares, k_norm, angle, cosines, sines, at, inside, eps, HALF, True
    )
    new_low, new_high = _halves(key + KV_HEADS * DIM, at, inside, HALF)
    cached = ((row.to(tl.int64) * POSITIONS + past) * KV_HEADS + head)[:, None] * DIM
    here = ((row.to(tl.int64) * POSITIONS + position) * KV_HEADS + head) * DIM + at
    known, own = (past < position)[:, None] & inside[None, :], (past == position)[:, None]
    key_low, key_high = _halves(keys + cached, at[None, :], known, HALF)
    value_low, value_high = _halves(values + cached, at[None, :], known, HALF)
    tl.store(keys + here, low)
    tl.store(keys + here + HALF, high)
    tl.store(values + here, new_low)
    tl.store(values + here + HALF, new_high)
    key_low = tl.where(own, low[None, :], key_low)
    key_high = tl.where(own, high[None, :], key_high)
    value_low = tl.where(own, new_low[None, :], value_low)
    value_high = tl.where(own, new_high[None, :], value_high)
    for query in tl.static_range(GROUP):
        which = head * GROUP + query
        low, high = _halves(line + which * DIM, at, inside, HALF)
        squares = tl.sum(low * low + high * high, 0)
        low, high = _turned(
            low, high, squares, q_norm, angle, cosines, sines, at, inside, eps, HALF, True
        )
        score = tl.sum(key_low * low[None, :] + key_high * high[None, :], 1) * (DIM**-0.5)
        score = tl.where(past <= position, score, float("-inf"))
        weight = tl.exp(score - tl.max(score, 0))
        weight = (weight / tl.sum(weight, 0))[:, None]
        there = out + (row.to(tl.int64) * HEADS + which) * DIM + at
        tl.store(there, tl.sum(value_low * weight, 0))
        tl.store(there + HALF, tl.sum(value_high * weight, 0))


@triton.jit
def _meet(arrived, programs):
    """Wait until all programs have come here: what they wrote before is then seen by all."""
    tl.debug_barrier()
    tl.atomic_add(arrived, 1, sem="release")
    while tl.atomic_add(arrived, 0, sem="acquire") < programs:
        pass
    tl.debug_barrier()


@triton.jit(do_not_specialize=["begin", "end", "rows"])
def predict_frames(
    inputs,
    codes,
    project,
    project_bias,
    attention_norm,
    qkv,
    q_norm,
    k_norm,
    out,
    mlp_norm,
    gate_up,
    down,
    norm,
    heads,
    cosines,
    sines,
    x,
    product,
    attended,
    risen,
    logits,
    keys,
    values,
    drawn,
    arrived,
    seeds,
    frames,
    temperatures,
    top_ks,
    top_ps,
    eps,
    rows,
    begin,
    end,
    LAYERS: tl.constexpr,
    RESIDUALS: tl.constexpr,
    OUTER: tl.constexpr,
    DIM: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    HIDDEN: tl.constexpr,
    VOCABULARY: tl.constexpr,
    POSITIONS: tl.constexpr,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
    WIDE: tl.constexpr,
    NARROW: tl.constexpr,
    HAS_PROJECT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_TOP_K: tl.constexpr,
    HAS_TOP_P: tl.constexpr,
    PRECISION: tl.constexpr,
):
    program, programs = tl.program_id(0), tl.num_programs(0)
    EACH: tl.constexpr = 5  # _LAYER_PHASES
    PHASES: tl.constexpr = EACH * LAYERS + 3
    QUERIES: tl.constexpr = 2 * HEADS * HALF
    QKV: tl.constexpr = 2 * (HEADS + 2 * KV_HEADS) * HALF
    blocks = tl.cdiv(rows, ROWS)
    each, wide, narrow = tl.arange(0, ROWS), tl.arange(0, WIDE), tl.arange(0, NARROW)
    for phase in range(begin, end):
        position = phase // PHASES
        kind = phase % PHASES
        layer = tl.maximum(kind - 1, 0) // EACH
        part = (kind - 1) % EACH
        if kind == 0:
            for tile in range(program, blocks * (DIM // NARROW), programs):
                row = (tile % blocks) * ROWS + each
                real, column = row < rows, (tile // blocks) * NARROW + narrow
                line = position * rows + row.to(tl.int64)
                source = inputs
                if position >= 2:
                    told = drawn + row * RESIDUALS + position - 2
                    line = tl.load(told, mask=real, other=0) + (position - 2) * VOCABULARY
                    source = codes
                if HAS_PROJECT:
                    found = _product(
                        source, line, real, project, column, project, eps, OUTER, STEP, False,
                        PRECISION,
                    )  # fmt: skip
                    if HAS_BIAS:
                        found += tl.load(project_bias + column).to(tl.float32)[None, :]
                else:
                    taken = source + line[:, None] * OUTER + column[None, :]
                    found = tl.load(taken, mask=real[:, None], other=0.0).to(tl.float32)
                tl.store(x + row[:, None] * DIM + column[None, :], found, mask=real[:, None])
        elif kind == PHASES - 2:
            if position >= 1:
                for tile in range(program, blocks * (VOCABULARY // NARROW), programs):
                    row = (tile % blocks) * ROWS + each
                    real, column = row < rows, (tile // blocks) * NARROW + narrow
                    head = heads + (position - 1).to(tl.int64) * VOCABULARY * DIM
                    found = _product(
                        x, row, real, head, column, norm, eps, DIM, STEP, True, PRECISION
                    )
                    there = logits + row[:, None] * VOCABULARY + column[None, :]
                    tl.store(there, found, mask=real[:, None])
        elif kind == PHASES - 1:
            if position >= 1:
                ids = tl.arange(0, VOCABULARY)
                for row in range(program, rows, programs):
                    found = tl.load(logits + row * VOCABULARY + ids)
                    found = tl.where(tl.abs(found) < float("inf"), found, float("-inf"))
                    temperature = tl.load(temperatures + row)
                    top_k, top_p = 0, 1.0
                    if HAS_TOP_K:
                        top_k = tl.load(top_ks + row)
                    if HAS_TOP_P:
                        top_p = tl.load(top_ps + row)
                    u = _uniforms(tl.load(seeds + row), tl.load(frames + row), position, ids)
                    noise = -tl.log(-tl.log(u)) * temperature
                    chosen = _choose(
                        found, noise, ids, top_k, top_p, temperature, VOCABULARY, HAS_TOP_K,
                        HAS_TOP_P,
                    )  # fmt: skip
                    tl.store(drawn + row * RESIDUALS + position - 1, chosen.to(tl.int64))
        elif part == 0:
            for tile in range(program, blocks * (QKV // WIDE), programs):
                row = (tile % blocks) * ROWS + each
                real, column = row < rows, (tile // blocks) * WIDE + wide
                mine = qkv + layer.to(tl.int64) * QKV * DIM
                found = _product(
                    x, row, real, mine, column, attention_norm + layer * DIM, eps, DIM, STEP,
                    True, PRECISION,
                )  # fmt: skip
                there = product + row[:, None] * QKV + column[None, :]
                tl.store(there, found, mask=real[:, None])
        elif part == 1:
            for unit in range(program, rows * KV_HEADS, programs):
                row = unit // KV_HEADS
                head = unit % KV_HEADS
                own = layer.to(tl.int64) * rows * POSITIONS * KV_HEADS * 2 * HALF
                weights = layer * 2 * HALF
                _attend(
                    product, keys + own, values + own, attended, q_norm + weights,
                    k_norm + weights, cosines, sines, row, head, position, eps,
                    HEADS, KV_HEADS, HALF, POSITIONS,
                )  # fmt: skip
        elif part == 3:
            for tile in range(program, blocks * (HIDDEN // WIDE), programs):
                row = (tile % blocks) * ROWS + each
                real, column = row < rows, (tile // blocks) * WIDE + wide
                mine = gate_up + layer.to(tl.int64) * 2 * HIDDEN * DIM
                scale = mlp_norm + layer * DIM
                gate = _product(x, row, real, mine, column, scale, eps, DIM, STEP, True, PRECISION)
                up = _product(
                    x, row, real, mine, HIDDEN + column, scale, eps, DIM, STEP, True, PRECISION
                )
                there = risen + row[:, None] * HIDDEN + column[None, :]
                tl.store(there, gate * tl.sigmoid(gate) * up, mask=real[:, None])
        else:
            for tile in range(program, blocks * (DIM // NARROW), programs):
                row = (tile % blocks) * ROWS + each
                real, column = row < rows, (tile // blocks) * NARROW + narrow
                if part == 2:
                    mine = out + layer.to(tl.int64) * DIM * QUERIES
                    found = _product(
                        attended, row, real, mine, column, mine, eps, QUERIES, STEP, False,
                        PRECISION,
                    )  # fmt: skip
                else:
                    mine = down + layer.to(tl.int64) * DIM * HIDDEN
                    found = _product(
                        risen, row, real, mine, column, mine, eps, HIDDEN, STEP, False, PRECISION
                    )
                there = x + row[:, None] * DIM + column[None, :]
                before = tl.load(there, mask=real[:, None], other=0.0).to(tl.float32)
                tl.store(there, before + found, mask=real[:, None])
        if phase + 1 < end:
            _meet(arrived, (phase - begin + 1) * programs)


def phases(weights: Stacked) -> int:
    """Of a whole frame."""
    return (weights.residuals + 1) * (_LAYER_PHASES * weights.layers + 3)


@dataclass(frozen=True)
class FrameScratch:
    """What programs leave each other of a frame, for `rows` rows."""

    x: Tensor
    product: Tensor
    attended: Tensor
    risen: Tensor
    logits: Tensor
    keys: Tensor
    values: Tensor
    drawn: Tensor
    arrived: Tensor

    @classmethod
    def of(cls, w: Stacked, rows: int, like: Tensor) -> FrameScratch:
        """Of any content, but for the number of programs that arrived."""
        queries, kv_heads, _ = w.shares
        cache = (w.layers, rows, w.residuals + 1, kv_heads, w.head_dim)
        make, exact = like.new_empty, float32
        return cls(
            make(rows, w.dim),
            make(rows, sum(w.shares) * w.head_dim, dtype=exact),
            make(rows, queries * w.head_dim),
            make(rows, w.hidden),
            make(rows, w.vocabulary, dtype=exact),
            make(cache, dtype=exact),
            make(cache, dtype=exact),
            make(rows, w.residuals, dtype=torch_int64),
            zeros(1, dtype=int32, device=like.device),
        )


def predict(w: Stacked, inputs: Tensor, noise: Noise, settings: Settings, programs: int) -> Tensor:
    """See predictor.predict. programs: no more than run at the same time."""
    scratch = FrameScratch.of(w, inputs.shape[1], inputs)
    run(w, scratch, inputs, noise, settings, programs, range(phases(w)))
    return scratch.drawn


def run(
    w: Stacked,
    scratch: FrameScratch,
    inputs: Tensor,
    noise: Noise,
    settings: Settings,
    programs: int,
    part: range,
) -> None:
    """The phases `part` of a frame in one launch."""
    rows, unused = inputs.shape[1], scratch.drawn
    project = w.norm if w.project is None else w.project
    tall = min(_MOST_ROWS, max(_LEAST_ROWS, triton.next_power_of_2(rows)))
    predict_frames[(programs,)](
        *(inputs, w.codes, project, project if w.project_bias is None else w.project_bias),
        *(w.attention_norm, w.qkv, w.q_norm, w.k_norm, w.out, w.mlp_norm, w.gate_up, w.down),
        *(w.norm, w.heads, w.cosines, w.sines),
        *(scratch.x, scratch.product, scratch.attended, scratch.risen, scratch.logits),
        *(scratch.keys, scratch.values, scratch.drawn, scratch.arrived),
        *(noise.seed, noise.frame, settings.temperature),
        unused if settings.top_k is None else settings.top_k,
        unused if settings.top_p is None else settings.top_p,
        *(w.eps, rows, part.start, part.stop),
        LAYERS=w.layers,
        RESIDUALS=w.residuals,
        OUTER=inputs.shape[2],
        DIM=w.dim,
        HEADS=w.shares[0],
        KV_HEADS=w.shares[1],
        HALF=w.head_dim // 2,
        HIDDEN=w.hidden,
        VOCABULARY=w.vocabulary,
        POSITIONS=w.residuals + 1,
        ROWS=tall,
        STEP=w.step,
        WIDE=w.wide,
        NARROW=NARROW,
        HAS_PROJECT=w.project is not None,
        HAS_BIAS=w.project_bias is not None,
        HAS_TOP_K=settings.top_k is not None,
        HAS_TOP_P=settings.top_p is not None,
        PRECISION="ieee" if inputs.dtype == float32 else None,
        **SHAPE,
        launch_cooperative_grid=True,
    )
