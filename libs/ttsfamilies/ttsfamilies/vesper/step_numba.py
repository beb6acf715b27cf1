"""A step of the vesper talker in one compiled call: guesses, blocks, draws and what they change.

Products are of whole numbers and the loops between them those of the other kernels, so that a row
has the bits that it has in a prompt. What it stands on are arrays of the slots and the cache.
Weights are bytes: all of them are read in each step, which takes longer than to multiply them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ttscommon.engine.kernels.blocks_numba import add_norm_rows, norm_rows, swiglu_rows
from ttscommon.engine.kernels.compiled import (
    FLOAT,
    INT,
    compiled,
    flags,
    floats,
    ints,
    part,
    strided,
    tuple_of,
)
from ttscommon.engine.kernels.integer_products_numba import (
    BYTE_PRODUCT,
    BYTE_PRODUCTS,
    IntegerProduct,
    multiply_rounded,
    of_layer,
)
from ttsfamilies.base.kernels.attention_numba import CACHED, Cached, attend, turn_and_store
from ttsfamilies.vesper.chain_numba import (
    CHAIN,
    Chain,
    Flags,
    Floats,
    Ints,
    draw_codes,
    draw_moves,
    embed,
    follow,
    gain,
    move_on,
)


class BackboneWeights(NamedTuple):
    """Weights of the blocks, [layers, ...] each, and of the norm behind them.

    cosines, sines: [positions, head_dim / 2].
    """

    attention_norm: Floats
    qkv: IntegerProduct
    out: IntegerProduct
    mlp_norm: Floats
    gate: IntegerProduct
    down: IntegerProduct
    norm: Floats
    cosines: Floats
    sines: Floats


class Heads(NamedTuple):
    """What chooses a frame. move: [MOVES, dim], refused: see `net.refusals`."""

    moves: IntegerProduct
    move: Floats
    codes: IntegerProduct
    refused: Floats


class Guessing(NamedTuple):
    """The drafter's weights, and the tables of what positions are told."""

    told: IntegerProduct
    norm: Floats
    gate: IntegerProduct
    down: IntegerProduct
    out_norm: Floats
    heads: Heads
    history: Floats
    held: Floats


class StepDraws(NamedTuple):
    """What draws of a step depend on beside logits: noise [rows, width, ...], warmth and top_k
    [rows].
    """

    move_noise: Floats
    code_noise: Floats
    move_warmth: Floats
    code_warmth: Floats
    top_k: Ints


class SlotArrays(NamedTuple):
    """What a step changes of the slots' state, and what they are told: [slots, ...] each. begin:
    what position 0 is told.
    """

    code: Ints
    pointer: Ints
    held: Ints
    frame: Ints
    hidden: Floats
    begin: Floats
    told: Floats


class Drawn(NamedTuple):
    """moves, codes: [rows, width]. gained, ended, bad: [rows]. hidden: [rows * width, dim]."""

    moves: Ints
    codes: Ints
    gained: Ints
    ended: Flags
    bad: Flags
    hidden: Floats


BACKBONE: Final = tuple_of(
    BackboneWeights,
    *2 * (floats(2), BYTE_PRODUCTS, BYTE_PRODUCTS),
    *(floats(1), floats(2), floats(2)),
)
HEADS: Final = tuple_of(Heads, *2 * (BYTE_PRODUCT, floats(2)))
GUESSING: Final = tuple_of(
    *(Guessing, BYTE_PRODUCT, floats(1), BYTE_PRODUCT, BYTE_PRODUCT, floats(1), HEADS),
    *(floats(2), floats(2)),
)
DRAWS: Final = tuple_of(StepDraws, floats(3), floats(3), floats(1), floats(1), ints(1))
SLOTS: Final = tuple_of(
    SlotArrays, *4 * (strided(ints(1)),), *2 * (strided(floats(2)),), strided(floats(3))
)
DRAWN: Final = tuple_of(Drawn, ints(2), ints(2), ints(1), flags(1), flags(1), floats(2))


@part
def _through(
    net: BackboneWeights,
    x: Floats,
    positions: Ints,
    cached: Cached,
    eps: np.float32,
    hidden: Floats,
) -> None:
    """[tokens, dim] through the blocks, to `hidden` [tokens, dim]."""
    tokens, dim = x.shape
    layers, size = len(net.attention_norm), 2 * net.cosines.shape[1]
    heads, wide = dim // size, net.gate.bias.shape[1] // 2
    cosines = np.empty((tokens, size // 2), np.float32)
    sines = np.empty((tokens, size // 2), np.float32)
    for token in range(tokens):
        cosines[token] = net.cosines[positions[token]]
        sines[token] = net.sines[positions[token]]
    summed, normed = np.empty((tokens, dim), np.float32), np.empty((tokens, dim), np.float32)
    added, bent = np.empty((tokens, dim), np.float32), np.empty((tokens, wide), np.float32)
    qkv = np.empty((tokens, 3 * dim), np.float32)
    queries = np.empty((tokens, heads, size), np.float32)
    mixed = np.empty((tokens, heads, size), np.float32)
    gates = np.empty((tokens, 2 * wide), np.float32)
    summed[:] = x
    for layer in range(layers):
        if layer == 0:
            norm_rows(summed, net.attention_norm[layer], eps, normed)
        else:
            add_norm_rows(summed, added, net.attention_norm[layer], eps, summed, normed)
        multiply_rounded(normed, of_layer(net.qkv, layer), qkv)
        keys, values = cached.keys[layer], cached.values[layer]
        turn_and_store(
            qkv.reshape(tokens, 3 * heads, size),
            cosines,
            sines,
            keys,
            values,
            cached.places,
            queries,
        )
        attend(queries, keys, values, cached.rows, cached.begins, cached.ends, 0, 1, mixed)
        multiply_rounded(mixed.reshape(tokens, dim), of_layer(net.out, layer), added)
        add_norm_rows(summed, added, net.mlp_norm[layer], eps, summed, normed)
        multiply_rounded(normed, of_layer(net.gate, layer), gates)
        swiglu_rows(gates, bent)
        multiply_rounded(bent, of_layer(net.down, layer), added)
    add_norm_rows(summed, added, net.norm, eps, summed, hidden)


@part
def _draw(
    heads: Heads, read: Floats, chain: Chain, at: int, draws: StepDraws, top_k: Ints,
    moves: Ints, codes: Ints, move_logits: Floats, code_logits: Floats,
) -> None:  # fmt: skip
    """Moves and codes [rows, n] of the places [rows, at : at + n] from what they are read from,
    [rows * n, dim].
    """
    rows, count = moves.shape
    dim = read.shape[1]
    multiply_rounded(read, heads.moves, move_logits)
    draw_moves(chain, at, move_logits, heads.refused, draws.move_noise, draws.move_warmth, moves)
    moved = np.empty((rows * count, dim), np.float32)
    for row in range(rows):
        for i in range(count):
            place, move = row * count + i, moves[row, i]
            for branch in range(dim):
                moved[place, branch] = read[place, branch] + heads.move[move, branch]
    multiply_rounded(moved, heads.codes, code_logits)
    draw_codes(code_logits, draws.code_noise, at, draws.code_warmth, top_k, codes)


@part
def _guess(
    net: Guessing, slots: SlotArrays, of: Ints, chain: Chain, draws: StepDraws, eps: np.float32,
    guesses: Ints, every: Floats,
) -> None:  # fmt: skip
    """Fill the chain; the moves that were guessed, [rows, width - 1], and what all places are told,
    [rows * width, dim].
    """
    (rows, width), dim = chain.code.shape, every.shape[1]
    now, state = np.empty((rows, dim), np.float32), np.empty((rows, dim), np.float32)
    added, normed = np.empty((rows, dim), np.float32), np.empty((rows, dim), np.float32)
    wide = len(net.gate.bias) // 2
    gates, bent = np.empty((rows, 2 * wide), np.float32), np.empty((rows, wide), np.float32)
    move_logits = np.empty((rows, len(net.heads.move)), np.float32)
    code_logits = np.empty((rows, draws.code_noise.shape[2]), np.float32)
    move, code = np.empty((rows, 1), np.int64), np.empty((rows, 1), np.int64)
    any_code = np.zeros(rows, np.int64)
    for row in range(rows):
        state[row] = slots.hidden[of[row]]
    for at in range(width):
        embed(chain, at, of, net.history, slots.told, net.held, now, every)
        if at == width - 1:
            break
        multiply_rounded(now, net.told, added)
        add_norm_rows(state, added, net.norm, eps, state, normed)
        multiply_rounded(normed, net.gate, gates)
        swiglu_rows(gates, bent)
        multiply_rounded(bent, net.down, added)
        for row in range(rows):
            for branch in range(dim):
                state[row, branch] += added[row, branch]
        norm_rows(state, net.out_norm, eps, normed)
        _draw(net.heads, normed, chain, at, draws, any_code, move, code, move_logits, code_logits)
        follow(chain, at, move, code)
        for row in range(rows):
            guesses[row, at] = move[row, 0]


@part
def _check(
    heads: Heads, slots: SlotArrays, of: Ints, chain: Chain, draws: StepDraws, guesses: Ints,
    samples: Flags, drawn: Drawn,
) -> None:  # fmt: skip
    """What the talker draws at every place, which guesses it meets, and the state behind the last
    frame that each row gains. samples: [rows], false where no frame is wanted yet.
    """
    (rows, width), dim = chain.code.shape, drawn.hidden.shape[1]
    move_logits = np.empty((rows * width, len(heads.move)), np.float32)
    code_logits = np.empty((rows * width, draws.code_noise.shape[2]), np.float32)
    moves, codes = drawn.moves, drawn.codes
    _draw(heads, drawn.hidden, chain, 0, draws, draws.top_k, moves, codes, move_logits, code_logits)
    gain(chain, guesses, moves, codes, move_logits, code_logits, drawn.gained, drawn.bad)
    for row in range(rows):
        if not samples[row]:
            drawn.gained[row], drawn.bad[row] = 0, False
    move_on(
        chain, of, moves, codes, drawn.gained,
        slots.code, slots.pointer, slots.held, slots.frame, drawn.ended,
    )  # fmt: skip
    for row in range(rows):
        last = row * width + max(drawn.gained[row] - 1, 0)
        for branch in range(dim):
            slots.hidden[of[row], branch] = drawn.hidden[last, branch]


@compiled(BACKBONE, floats(2), ints(1), CACHED, FLOAT, floats(2))
def through(
    net: BackboneWeights,
    x: Floats,
    positions: Ints,
    cached: Cached,
    eps: np.float32,
    hidden: Floats,
) -> None:
    """[tokens, dim] at their positions through the blocks, to `hidden` [tokens, dim]."""
    _through(net, x, positions, cached, eps, hidden)


@part
def _start(
    chain: Chain, slots: SlotArrays, of: Ints, positions: Ints, done: Ints, last: int
) -> None:
    """The certain place of each row, and what the cache has behind all of them. positions: [rows,
    places] of the rows, `done` of which [rows] are behind the slots' state.
    """
    rows, width = chain.code.shape
    for row in range(rows):
        slot = of[row]
        chain.code[row, 0], chain.pointer[row, 0] = slots.code[slot], slots.pointer[slot]
        chain.held[row, 0] = slots.held[slot]
        for i in range(width):
            chain.left[row, i] = last - positions[row, done[row] + i]


@part
def _draws_of(draws: StepDraws, done: Ints, width: int) -> StepDraws:
    """The next `width` places of each row behind those that are done."""
    rows = len(done)
    moves = np.empty((rows, width, draws.move_noise.shape[2]), np.float32)
    codes = np.empty((rows, width, draws.code_noise.shape[2]), np.float32)
    for row in range(rows):
        moves[row] = draws.move_noise[row, done[row] : done[row] + width]
        codes[row] = draws.code_noise[row, done[row] : done[row] + width]
    return StepDraws(moves, codes, draws.move_warmth, draws.code_warmth, draws.top_k)


@part
def _places_of(cached: Cached, first: Ints, done: Ints, width: int, fresh: Ints) -> Cached:
    """Likewise, and behind them position 0 of rows that are `fresh`. first: [rows], each row's
    first frame among the tokens of `cached`.
    """
    tokens = len(done) * width + len(fresh)
    begins, ends = np.empty(tokens, np.int64), np.empty(tokens, np.int64)
    places = np.empty(tokens, np.int64)
    for token in range(tokens):
        row, i = token // width, token % width
        if row < len(done):
            at = first[row] + done[row] + i
        else:
            at = first[fresh[token - len(done) * width]] - 1
        begins[token], ends[token] = cached.begins[at], cached.ends[at]
        places[token] = cached.places[at]
    return Cached(cached.keys, cached.values, cached.rows, begins, ends, places)


@part
def _begin(positions: Ints, first: Ints) -> Ints:
    """The rows whose position 0 is computed as well. Fills `first`; see `_places_of`."""
    rows, count = positions.shape
    fresh = np.empty(rows, np.int64)
    found = 0
    for row in range(rows):
        if positions[row, 0] == 1:
            fresh[found] = row
            found += 1
        first[row] = row * count + found
    return fresh[:found]


@compiled(HEADS, SLOTS, ints(1), CHAIN, DRAWS, ints(2), INT, flags(1), DRAWN)
def first(
    heads: Heads, slots: SlotArrays, of: Ints, chain: Chain, draws: StepDraws, positions: Ints,
    last: int, samples: Flags, drawn: Drawn,
) -> None:  # fmt: skip
    """The frame of each prompt's end, from `drawn.hidden`. of: [rows], the slot of each.
    positions: [rows, 1]; last: of the cache, for one utterance.
    """
    guesses = np.empty((len(of), 0), np.int64)
    _start(chain, slots, of, positions, np.zeros(len(of), np.int64), last)
    _check(heads, slots, of, chain, draws, guesses, samples, drawn)


@compiled(
    *(BACKBONE, GUESSING, HEADS, SLOTS, ints(1), CHAIN, DRAWS, ints(2), INT, CACHED, FLOAT, DRAWN)
)
def step(
    net: BackboneWeights, guessing: Guessing, heads: Heads, slots: SlotArrays, of: Ints,
    chain: Chain, draws: StepDraws, positions: Ints, last: int, cached: Cached, eps: np.float32,
    drawn: Drawn,
) -> None:  # fmt: skip
    """As many rounds of the chain's width as `positions` [rows, places] are; each gives 1 to
    `width` frames for each row, none for one whose sequence is over. Rows that begin at position 1
    have position 0 computed in their first round.
    """
    (rows, width), dim, count = chain.code.shape, drawn.hidden.shape[1], positions.shape[1]
    guesses, done = np.empty((rows, width - 1), np.int64), drawn.gained
    moves, codes = np.empty((rows, width), np.int64), np.empty((rows, width), np.int64)
    first, places = np.empty(rows, np.int64), rows * width
    fresh = _begin(positions, first)
    every = np.empty((places + len(fresh), dim), np.float32)
    hidden = np.empty_like(every)
    found = Drawn(moves, codes, np.empty(rows, np.int64), drawn.ended, drawn.bad, hidden[:places])
    now = np.zeros(places + len(fresh), np.int64)
    for at in range(len(fresh)):
        every[places + at] = slots.begin[of[fresh[at]]]
    for _ in range(count // width):
        _start(chain, slots, of, positions, done, last)
        for row in range(rows):
            now[row * width : (row + 1) * width] = positions[row, done[row] : done[row] + width]
        drawn_with = _draws_of(draws, done, width)
        where = _places_of(cached, first, done, width, fresh)
        tokens = places + len(fresh)
        _guess(guessing, slots, of, chain, drawn_with, eps, guesses, every[:places])
        _through(net, every[:tokens], now[:tokens], where, eps, hidden[:tokens])
        fresh = fresh[:0]
        _check(heads, slots, of, chain, drawn_with, guesses, np.ones(rows, np.bool_), found)
        for row in range(rows):
            for i in range(found.gained[row]):
                at = done[row] + i
                drawn.moves[row, at], drawn.codes[row, at] = moves[row, i], codes[row, i]
                drawn.hidden[row * count + at] = found.hidden[row * width + i]
            done[row] += found.gained[row]
