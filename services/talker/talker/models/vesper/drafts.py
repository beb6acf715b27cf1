"""Several frames of vesper in a step: a chain of guesses that one step of the talker checks.

Draws are a pure function of logits and noise, and the drafter is given the noise that the talker
will use for the frame. So a guess that is as likely for both comes out the same, and what is kept
are the frames that plain steps would have chosen, bit for bit (docs/decisions/0050).

For the CPU. What a guess moves on are small integers, and numpy's operations on them cost a third
of torch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from talker.models.vesper.frame import (
    CHANGING,
    CODE_DRAW,
    MOVE_DRAW,
    MOVING,
    after,
    refusal,
)
from talker.models.vesper.net import HELD_LIMIT, MOVES, VesperNet
from talker.runners.computation import Attend, Out, Rows, SlotTensors
from talker.runners.kv import LEAST_ROWS
from talker.runners.padding import padded
from talker.sampling.draw import choose
from talker.sampling.noise import frame_keys, gumbels

Ints = NDArray[np.int64]
PointerState = Mapping[str, NDArray[Any]]
"""Where a frame is chosen: [rows] of each of MOVING."""


class _Noise(NamedTuple):
    """[rows, width, MOVES] and [rows, width, codes]: what draws add to logits."""

    move: Tensor
    code: Tensor


class _Guesses(NamedTuple):
    """places: the certain one of each row and those guessed behind it. told: what each is told,
    [rows * width, dim]. move, code: [rows, width - 1] the frames that were guessed.
    """

    places: list[PointerState]
    told: Tensor
    move: Ints
    code: Ints


class _Drawn(NamedTuple):
    """[rows, width] each: what the talker draws at every place; finite: whether it could."""

    move: Ints
    code: Ints
    finite: NDArray[np.bool_]


class Drafts:
    """Steps that may gain several frames. positions: of the cache, for one utterance."""

    def __init__(self, net: VesperNet, positions: int) -> None:
        self._net = net
        self._last = positions - 1

    def step(self, rows: Rows, state: SlotTensors, attend: Attend) -> Out:
        """1 to `rows.width` frames for each row, none for one whose sequence is over."""
        slots, shape = rows.slots.numpy(), (len(rows.slots), rows.width)
        left = self._last - rows.positions.numpy()[: slots.size * rows.width].reshape(shape)
        first = {name: state[name].numpy()[slots] for name in MOVING}
        noise = self._noise(first, rows.width)
        guesses = self._guess(first, rows.slots, state, left, noise)
        flat = self._net.backbone(padded(guesses.told, LEAST_ROWS), rows.positions, attend)
        hidden = flat[: slots.size * rows.width]
        drawn, met = self._check(hidden, guesses, left, noise)
        gained = _gained(guesses.places, met)
        return _moved_on(slots, state, guesses, drawn, hidden.view(*shape, -1), gained)

    def _noise(self, first: PointerState, width: int) -> _Noise:
        frame = torch.from_numpy(first["frame"])[:, None] + torch.arange(width)
        seed = torch.from_numpy(first["seed"])[:, None].expand_as(frame)
        sizes = (MOVES, self._net.config.codebook_size)
        return _Noise(*gumbels(frame_keys(seed, frame), [MOVE_DRAW, CODE_DRAW], sizes))

    def _guess(
        self, first: PointerState, slots: Tensor, state: SlotTensors, left: Ints, noise: _Noise
    ) -> _Guesses:
        """Rows are padded once, with the last one again, where each product would pad them."""
        drafter, real = self._net.drafter, len(slots)
        enough = np.minimum(np.arange(max(real, LEAST_ROWS)), real - 1)
        rows, left = slots.numpy()[enough], left[enough]
        move_noise, code_noise = (each.numpy()[enough] for each in noise)
        places: list[PointerState] = [{name: first[name][enough] for name in MOVING}]
        moves: list[Ints] = []
        codes: list[Ints] = []
        told = [self._embed(places[0], rows, state)]
        hidden = state["hidden"][rows]
        for ahead in range(left.shape[1] - 1):
            place = places[-1]
            hidden = drafter.step(hidden, told[-1])
            read = drafter.read(hidden)
            bias = self._net.refused.numpy()[refusal(place, left[:, ahead])]
            scores = drafter.move_logits(read).numpy() + bias
            warm = move_noise[:, ahead] * place["move_temperature"][:, None]
            moves.append((scores + warm).argmax(-1))
            scores = drafter.code0_logits(read, torch.from_numpy(moves[-1])).numpy()
            warm = code_noise[:, ahead] * place["temperature"][:, None]
            codes.append((scores + warm).argmax(-1))
            places.append(after(place, moves[-1], codes[-1]))
            told.append(self._embed(places[-1], rows, state))
        every = torch.stack(told, 1)[:real].flatten(0, 1)
        own = [_first(place, real) for place in places]
        return _Guesses(own, every, np.stack(moves, 1)[:real], np.stack(codes, 1)[:real])

    def _embed(self, place: PointerState, slots: Ints, state: SlotTensors) -> Tensor:
        """What a place's position is told, [rows, dim]: `FrameChoice.embed` by numpy, which finds
        rows of a table in a fraction of the time.
        """
        history, held = (each.weight.detach().numpy() for each in (self._net.code0, self._net.held))
        pointer = np.minimum(place["pointer"], place["tokens"])
        known = state["told"].numpy()[slots, pointer] + held[place["held"].clip(max=HELD_LIMIT)]
        return torch.from_numpy(history[place["code"]] + known)

    def _check(
        self, hidden: Tensor, guesses: _Guesses, left: Ints, noise: _Noise
    ) -> tuple[_Drawn, NDArray[np.bool_]]:
        """What the talker draws at every place, and which guesses it meets, [rows, width - 1]."""
        net, shape, real = self._net, left.shape, len(hidden)
        stacked = (np.stack([place[name] for place in guesses.places], 1) for name in MOVING)
        flat = {name: values.reshape(-1) for name, values in zip(MOVING, stacked, strict=True)}
        told = {name: torch.from_numpy(values) for name, values in flat.items()}
        rows = padded(hidden, LEAST_ROWS)
        logits = net.move_logits(rows)[:real]
        allowed = logits + net.refused[torch.from_numpy(refusal(flat, left.reshape(-1)))]
        warm = told["move_temperature"]
        move = choose(allowed, noise.move.flatten(0, 1), temperature=warm)
        code_logits = net.code0_logits(rows, padded(move, LEAST_ROWS))[:real]
        warm, top_k = told["temperature"], told["top_k"]
        code = choose(code_logits, noise.code.flatten(0, 1), temperature=warm, top_k=top_k)
        finite = logits.isfinite().all(-1) & code_logits.isfinite().all(-1)
        drawn = _Drawn(*(x.numpy().reshape(shape) for x in (move, code, finite)))
        met = (guesses.move == drawn.move[:, :-1]) & (guesses.code == drawn.code[:, :-1])
        return drawn, met


def _first(place: PointerState, rows: int) -> PointerState:
    return {name: values[:rows] for name, values in place.items()}


def _gained(places: list[PointerState], met: NDArray[np.bool_]) -> Ints:
    """Frames of each row up to the first whose guess was not met, [rows]."""
    valid = places[0]["pointer"] < places[0]["tokens"]
    gained = valid.astype(np.int64)
    for ahead, place in enumerate(places[1:]):
        valid = valid & met[:, ahead] & (place["pointer"] < place["tokens"])
        gained += valid
    return gained


def _moved_on(
    slots: Ints, state: SlotTensors, guesses: _Guesses, drawn: _Drawn, hidden: Tensor, gained: Ints
) -> Out:
    """Move the state on behind the last frame that each row gained."""
    count, width = drawn.move.shape
    row, last = np.arange(count), np.maximum(gained - 1, 0)
    over = gained == 0
    old = {name: np.stack([p[name] for p in guesses.places], 1)[row, last] for name in CHANGING}
    tokens = guesses.places[0]["tokens"]
    new = after(old, drawn.move[row, last], drawn.code[row, last])
    for name in CHANGING:
        state[name].numpy()[slots] = np.where(over, old[name], new[name])
    state["hidden"][slots] = hidden[row, last]
    # What later frames of the step stand on are the guesses before them.
    stands = np.arange(width - 1) < last[:, None]
    code, move = drawn.code.copy(), drawn.move.copy()
    code[:, :-1] = np.where(stands, guesses.code, code[:, :-1])
    move[:, :-1] = np.where(stands, guesses.move, move[:, :-1])
    kept = np.arange(width) < gained[:, None]
    frames = {"code": torch.from_numpy(code), "move": torch.from_numpy(move), "hidden": hidden}
    return Out(
        frames,
        torch.from_numpy(gained),
        torch.from_numpy(~over & (new["pointer"] >= tokens)),
        torch.from_numpy((kept & ~drawn.finite).any(1)),
        torch.from_numpy(np.maximum(gained, 1)),
    )
