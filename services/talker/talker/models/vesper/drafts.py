"""Several frames of vesper in a step: a chain of guesses that one step of the talker checks.

Draws are a pure function of logits and noise, and the drafter is given the noise that the talker
will use for the frame. So a guess that is as likely for both comes out the same, and what is kept
are the frames that plain steps would have chosen, bit for bit (docs/decisions/0050).

With a tolerance a guess is also kept where it is as good as a draw. What is said then depends on
where windows of guesses begin; see VesperStream.

For the CPU. What a guess moves on are small integers, and numpy's operations on them cost a third
of torch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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
from talker.models.vesper.net import MOVES, VesperNet
from talker.runners.computation import Attend, Out, Rows, SlotTensors
from talker.runners.kv import LEAST_ROWS
from talker.runners.padding import padded
from talker.sampling.draw import choose
from talker.sampling.noise import frame_keys, gumbels

_AGAIN: Final = 16
"""Draws of a second, third, ... try begin here: further from the first than any codebook."""
_CENTS: Final = 1200.0

Ints = NDArray[np.int64]
PointerState = Mapping[str, NDArray[Any]]
"""Where a frame is chosen: [rows] of each of MOVING."""


@dataclass(frozen=True, eq=False)
class Tolerance:
    """Which guesses are as good as what is drawn.

    width: frames of a step. tries: how often the talker may draw a frame to meet its guess, tau in
    VADUSA. near: [codes, codes] whether one pitch code is as good as another, None for none but
    itself.
    """

    width: int
    tries: int = 1
    near: Tensor | None = None


def near_in_pitch(table: Tensor, cents: float) -> Tensor:
    """Codes of the same voicing whose pitches are nowhere further apart than `cents`.

    table: [codes, hops, 2], logarithm of the pitch and voicing, in units that the codec scales by
    4 and 2. Returns [codes, codes] bool.
    """
    height, voiced = table[..., 0] / 4, table[..., 1] > 1
    same = (voiced[:, None] == voiced[None]).all(-1)
    apart = (height[:, None] - height[None]).abs() * (voiced[:, None] & voiced[None])
    return same & (apart.amax(-1) * _CENTS / float(np.log(2)) <= cents)


class _Noise(NamedTuple):
    """[rows, width, tries, MOVES] and [rows, width, tries, codes]: what draws add to logits."""

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

    def __init__(self, net: VesperNet, positions: int, tolerance: Tolerance | None = None) -> None:
        self._net = net
        self._last = positions - 1
        self._tolerance = tolerance

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
        tries = self._tolerance.tries if self._tolerance else 1
        frame = torch.from_numpy(first["frame"])[:, None] + torch.arange(width)
        seed = torch.from_numpy(first["seed"])[:, None].expand_as(frame)
        wanted = [MOVE_DRAW, CODE_DRAW, *range(_AGAIN, _AGAIN + 2 * (tries - 1))]
        codes = self._net.config.codebook_size
        found = gumbels(frame_keys(seed, frame), wanted, (MOVES, codes) * tries)
        return _Noise(torch.stack(found[::2], 2), torch.stack(found[1::2], 2))

    def _guess(
        self, first: PointerState, slots: Tensor, state: SlotTensors, left: Ints, noise: _Noise
    ) -> _Guesses:
        drafter = self._net.drafter
        places, moves, codes = [first], [], []
        told = [self._embed(first, slots, state)]
        hidden = state["hidden"].index_select(0, slots)
        for ahead in range(left.shape[1] - 1):
            place = places[-1]
            hidden = drafter.step(hidden, told[-1])
            read = drafter.read(hidden)
            bias = self._net.refused.numpy()[refusal(place, left[:, ahead])]
            scores = drafter.move_logits(read).numpy() + bias
            warm = noise.move[:, ahead, 0].numpy() * place["move_temperature"][:, None]
            moves.append((scores + warm).argmax(-1))
            scores = drafter.code0_logits(read, torch.from_numpy(moves[-1])).numpy()
            warm = noise.code[:, ahead, 0].numpy() * place["temperature"][:, None]
            codes.append((scores + warm).argmax(-1))
            places.append(after(place, moves[-1], codes[-1]))
            told.append(self._embed(places[-1], slots, state))
        every = torch.stack(told, 1).flatten(0, 1)
        return _Guesses(places, every, np.stack(moves, 1), np.stack(codes, 1))

    def _embed(self, place: PointerState, slots: Tensor, state: SlotTensors) -> Tensor:
        """What a place's position is told, [rows, dim]."""
        pointer = torch.from_numpy(np.minimum(place["pointer"], place["tokens"]))
        history = self._net.embed_history(torch.from_numpy(place["code"]))
        held = self._net.embed_held(torch.from_numpy(place["held"]))
        return history + (state["told"][slots, pointer] + held)

    def _check(
        self, hidden: Tensor, guesses: _Guesses, left: Ints, noise: _Noise
    ) -> tuple[_Drawn, NDArray[np.bool_]]:
        """What the talker draws at every place, and which guesses it meets, [rows, width - 1]."""
        net, shape, real = self._net, left.shape, len(hidden)
        stacked = (np.stack([place[name] for place in guesses.places], 1) for name in MOVING)
        flat = {name: values.reshape(-1) for name, values in zip(MOVING, stacked, strict=True)}
        chances = _Chances(flat, noise)
        rows = padded(hidden, LEAST_ROWS)
        logits = net.move_logits(rows)[:real]
        allowed = logits + net.refused[torch.from_numpy(refusal(flat, left.reshape(-1)))]
        move = chances.move(allowed, 0)
        code_logits = net.code0_logits(rows, padded(move, LEAST_ROWS))[:real]
        code = chances.code(code_logits, 0)
        finite = logits.isfinite().all(-1) & code_logits.isfinite().all(-1)
        drawn = _Drawn(*(x.numpy().reshape(shape) for x in (move, code, finite)))
        met = (guesses.move == drawn.move[:, :-1]) & (guesses.code == drawn.code[:, :-1])
        if self._tolerance is not None:
            met |= self._as_good(self._tolerance, rows, allowed, guesses, drawn, chances)
        return drawn, met

    def _as_good(
        self,
        tolerance: Tolerance,
        rows: Tensor,
        allowed: Tensor,
        guesses: _Guesses,
        drawn: _Drawn,
        chances: _Chances,
    ) -> NDArray[np.bool_]:
        """Which guesses are near one of the draws that the talker is allowed, [rows, width - 1]."""
        real = len(allowed)
        move = torch.from_numpy(np.column_stack((guesses.move, drawn.move[:, -1])).reshape(-1))
        code = torch.from_numpy(np.column_stack((guesses.code, drawn.code[:, -1])).reshape(-1))
        logits = self._net.code0_logits(rows, padded(move, LEAST_ROWS))[:real]
        met = torch.zeros(real, dtype=torch.bool)
        for attempt in range(tolerance.tries):
            found = chances.code(logits, attempt)
            near = found == code if tolerance.near is None else tolerance.near[found, code]
            met |= near & (chances.move(allowed, attempt) == move)
        every: NDArray[np.bool_] = met.numpy().reshape(drawn.move.shape)
        return every[:, :-1]


class _Chances:
    """Draws at many places: with which noise, and how warm."""

    def __init__(self, flat: PointerState, noise: _Noise) -> None:
        self._move, self._code = (part.flatten(0, 1) for part in noise)
        self._told = {name: torch.from_numpy(values) for name, values in flat.items()}

    def move(self, allowed: Tensor, attempt: int) -> Tensor:
        """[places, MOVES] -> [places] int64."""
        temperature = self._told["move_temperature"]
        return choose(allowed, self._move[:, attempt], temperature=temperature)

    def code(self, logits: Tensor, attempt: int) -> Tensor:
        """[places, codes] -> [places] int64."""
        temperature, top_k = self._told["temperature"], self._told["top_k"]
        return choose(logits, self._code[:, attempt], temperature=temperature, top_k=top_k)


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
