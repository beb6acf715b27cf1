"""The loops of a chain of guesses over rows and places, compiled; see `drafts`.

Numbers that a draw depends on are rounded as torch rounds them, so that a step of any width draws
the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import (
    INT,
    compiled_as_written,
    flags,
    floats,
    ints,
    part_as_written,
    strided,
    tuple_of,
)

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NOTHING: Final = np.float32(-np.inf)
_EVERYTHING: Final = np.float32(np.inf)


class Chain(NamedTuple):
    """Where the frames of a step are chosen.

    code, pointer, held: [rows, width], before each frame; the first is certain, the others follow
    from guesses. tokens, least, longest: [rows]. left: [rows, width] positions that the cache has
    behind each.
    """

    code: Ints
    pointer: Ints
    held: Ints
    tokens: Ints
    least: Ints
    longest: Ints
    left: Ints


CHAIN: Final = tuple_of(Chain, *3 * (ints(2),), *3 * (ints(1),), ints(2))


@part_as_written
def _after(pointer: int, held: int, move: int) -> tuple[int, int]:
    """`net.moved`."""
    first, second = move & 1, move >> 1
    return pointer + first + second, (1 - second) * (first + (1 - first) * (held + 2))


@part_as_written
def _largest(logits: Floats, noise: Floats, warmth: np.float32, least: np.float32) -> int:
    """Of the logits that are no less than `least`, the place of the largest with its noise."""
    best, highest = 0, _NOTHING
    for entry in range(len(logits)):
        noisy = logits[entry] + noise[entry] * warmth
        if noisy > highest and logits[entry] >= least:
            best, highest = entry, noisy
    return best


@part_as_written
def _nth_largest(x: Floats, count: int) -> np.float32:
    """Of so many or more numbers. Rare, and a sort would take longer to compile than all else."""
    found, least = 0, _EVERYTHING
    while found < count and least > _NOTHING:
        below, equal = _NOTHING, 0
        for entry in range(len(x)):
            if x[entry] < least:
                if x[entry] > below:
                    below, equal = x[entry], 1
                elif x[entry] == below:
                    equal += 1
        found, least = found + equal, below
    return least


@part_as_written
def _finite(x: Floats) -> bool:
    for entry in range(len(x)):  # noqa: SIM110 (numba has no all of a generator)
        if not np.isfinite(x[entry]):
            return False
    return True


@compiled_as_written(CHAIN, INT, floats(2), floats(2), floats(3), floats(1), strided(ints(2)))
def draw_moves(
    chain: Chain,
    at: int,
    logits: Floats,
    refused: Floats,
    noise: Floats,
    warmth: Floats,
    moves: Ints,
) -> None:
    """Moves of the places [rows, at : at + n] by their logits [rows * n, MOVES]. noise: [rows,
    width, MOVES]. refused: see `net.refusals`; which of its rows: see `frame.refusal`. moves:
    [rows, n].
    """
    rows, count = moves.shape
    for row in range(rows):
        for i in range(count):
            place = at + i
            held, tokens = chain.held[row, place], chain.tokens[row] - chain.pointer[row, place]
            late = held >= chain.longest[row] or tokens > chain.left[row, place]
            bits = (tokens <= 1) + 2 * late + 4 * (held < chain.least[row])
            best, highest = 0, _NOTHING
            for move in range(logits.shape[1]):
                allowed = logits[row * count + i, move] + refused[bits, move]
                noisy = allowed + noise[row, place, move] * warmth[row]
                if noisy > highest:
                    best, highest = move, noisy
            moves[row, i] = best


@compiled_as_written(floats(2), floats(3), INT, floats(1), ints(1), strided(ints(2)))
def draw_codes(
    logits: Floats, noise: Floats, at: int, warmth: Floats, top_k: Ints, codes: Ints
) -> None:
    """Codes of the places [rows, at : at + n] by their logits [rows * n, entries], as
    `sampling.draw.choose` draws them. noise: [rows, width, entries]. top_k: [rows], 0 for all.
    codes: [rows, n].
    """
    rows, count = codes.shape
    for row in range(rows):
        for i in range(count):
            one = logits[row * count + i]
            added = noise[row, at + i]
            best = _largest(one, added, warmth[row], _NOTHING)
            if top_k[row] > 0:
                above = 0
                for entry in range(len(one)):
                    above += one[entry] > one[best]
                if above >= top_k[row]:
                    best = _largest(one, added, warmth[row], _nth_largest(one, top_k[row]))
            codes[row, i] = best


@compiled_as_written(CHAIN, INT, strided(ints(2)), strided(ints(2)))
def follow(chain: Chain, at: int, moves: Ints, codes: Ints) -> None:
    """The place behind `at`, if it has this move and code: [rows, 1] each."""
    for row in range(len(codes)):
        pointer, held = _after(chain.pointer[row, at], chain.held[row, at], moves[row, 0])
        chain.code[row, at + 1] = codes[row, 0]
        chain.pointer[row, at + 1] = pointer
        chain.held[row, at + 1] = held


@compiled_as_written(
    *(CHAIN, INT, ints(1), floats(2), strided(floats(3)), floats(2), floats(2), floats(2))
)
def embed(
    chain: Chain,
    at: int,
    slots: Ints,
    history: Floats,
    told: Floats,
    held: Floats,
    now: Floats,
    every: Floats,
) -> None:
    """What a place's position is told, [rows, dim]: `FrameChoice.embed`.

    history: [codes, dim]; told: [slots, tokens, dim]; held: [units, dim]. every: [rows * width,
    dim] of all places.
    """
    width = chain.code.shape[1]
    for row in range(len(slots)):
        pointer = min(chain.pointer[row, at], chain.tokens[row])
        code, units = chain.code[row, at], min(chain.held[row, at], len(held) - 1)
        for i in range(now.shape[1]):
            one = history[code, i] + (told[slots[row], pointer, i] + held[units, i])
            now[row, i] = one
            every[row * width + at, i] = one


@compiled_as_written(CHAIN, *3 * (ints(2),), floats(2), floats(2), ints(1), flags(1))
def gain(
    chain: Chain,
    guessed_moves: Ints,
    moves: Ints,
    codes: Ints,
    move_logits: Floats,
    code_logits: Floats,
    gained: Ints,
    bad: Flags,
) -> None:
    """Frames of each row up to the first whose guess was not met, and whether one of them was
    drawn from what is not finite. moves, codes: [rows, width] as drawn.
    """
    rows, width = moves.shape
    for row in range(rows):
        count = 0
        while count < width and chain.pointer[row, count] < chain.tokens[row]:
            if count > 0 and (
                guessed_moves[row, count - 1] != moves[row, count - 1]
                or chain.code[row, count] != codes[row, count - 1]
            ):
                break
            at = row * width + count
            if not (_finite(move_logits[at]) and _finite(code_logits[at])):
                bad[row] = True
            count += 1
        gained[row] = count


@compiled_as_written(
    *(CHAIN, ints(1), ints(2), ints(2), ints(1), *4 * (strided(ints(1)),), flags(1))
)
def move_on(
    chain: Chain,
    slots: Ints,
    moves: Ints,
    codes: Ints,
    gained: Ints,
    code: Ints,
    pointer: Ints,
    held: Ints,
    frame: Ints,
    ended: Flags,
) -> None:
    """Behind the last frame that each row gained: code, pointer, held and frame of the slots."""
    for row in range(len(slots)):
        if gained[row] == 0:
            continue
        slot, last = slots[row], gained[row] - 1
        at, units = _after(chain.pointer[row, last], chain.held[row, last], moves[row, last])
        code[slot], pointer[slot], held[slot] = codes[row, last], at, units
        frame[slot] += gained[row]
        ended[row] = at >= chain.tokens[row]
