"""Several frames of vesper in a step: a chain of guesses that one step of the talker checks.

Draws are a pure function of logits and noise, and the drafter is given the noise that the talker
will use for the frame. So a guess that is as likely for both comes out the same, and what is kept
are the frames that plain steps would have chosen, bit for bit
(docs/decisions/speculative-decoding.md).

For the CPU: what happens between two products is a compiled loop (`chain_numba`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from talker.models.vesper import chain_numba as loops
from talker.models.vesper.chain_numba import Chain, Flags, Floats, Ints
from talker.models.vesper.frame import CHANGING, CODE_DRAW, MOVE_DRAW
from talker.models.vesper.net import MOVES, VesperNet
from talker.runners.computation import Attend, Out, Prompts, Rows, SlotTensors
from talker.runners.kv import LEAST_ROWS
from talker.runners.padding import padded
from talker.sampling.noise import frame_keys, gumbels


class _Draws(NamedTuple):
    """What draws of a step depend on beside logits: noise [rows, width, ...], warmth and top_k
    [rows].
    """

    move_noise: Floats
    code_noise: Floats
    move_warmth: Floats
    code_warmth: Floats
    top_k: Ints


class _Turn(NamedTuple):
    """known: the state of all slots. slots: [rows]."""

    known: dict[str, NDArray[Any]]
    slots: Ints
    chain: Chain
    draws: _Draws


class Drafts:
    """Steps that may gain several frames. positions: of the cache, for one utterance."""

    def __init__(self, net: VesperNet, positions: int) -> None:
        self._net = net
        self._last = positions - 1
        self._refused = net.refused.numpy()
        self._history, self._held = (e.weight.detach().numpy() for e in (net.code0, net.held))

    def step(self, rows: Rows, state: SlotTensors, attend: Attend) -> Out:
        """1 to `rows.width` frames for each row, none for one whose sequence is over."""
        turn = self._begin(rows, state, rows.positions, rows.width)
        guesses, told = self._guess(turn)
        hidden = self._net.backbone(padded(told, LEAST_ROWS), rows.positions, attend)
        return self._check(hidden, turn, guesses)

    def first(self, hidden: Tensor, positions: Tensor, rows: Prompts, state: SlotTensors) -> Out:
        """A frame for each prompt that ends here, from hidden states [rows or more, dim] at
        `positions` [rows or more].
        """
        turn = self._begin(rows, state, positions, 1)
        none = np.empty((rows.real, 0), np.int64)
        return self._check(hidden, turn, none, rows.samples[: rows.real].numpy())

    def _begin(self, rows: Rows, state: SlotTensors, positions: Tensor, width: int) -> _Turn:
        known = {name: tensor.numpy() for name, tensor in state.items()}
        slots = rows.slots.numpy()[: rows.real]
        left = self._last - positions.numpy()[: rows.real * width].reshape(rows.real, width)
        code, pointer, held = np.empty((3, *left.shape), np.int64)
        for places, name in ((code, "code"), (pointer, "pointer"), (held, "held")):
            places[:, 0] = known[name][slots]
        tokens, least, longest = (known[name][slots] for name in ("tokens", "least", "longest"))
        chain = Chain(code, pointer, held, tokens, least, longest, left)
        return _Turn(known, slots, chain, self._draws(known, slots, width))

    def _draws(self, known: dict[str, NDArray[Any]], slots: Ints, width: int) -> _Draws:
        frame = torch.from_numpy(known["frame"][slots])[:, None] + torch.arange(width)
        seed = torch.from_numpy(known["seed"][slots])[:, None].expand_as(frame)
        sizes = (MOVES, self._net.config.codebook_size)
        noise = gumbels(frame_keys(seed, frame), [MOVE_DRAW, CODE_DRAW], sizes)
        of_moves, of_codes = (each.contiguous().numpy() for each in noise)
        warm_moves, warm_codes = (known[n][slots] for n in ("move_temperature", "temperature"))
        return _Draws(of_moves, of_codes, warm_moves, warm_codes, known["top_k"][slots])

    def _guess(self, turn: _Turn) -> tuple[Ints, Tensor]:
        """Fill the chain; the moves that were guessed, [rows, width - 1], and what all places are
        told, [rows * width, dim]. Products get rows enough, the last of which stand for no stream.
        """
        known, slots, chain, draws = turn
        drafter, (rows, width) = self._net.drafter, chain.code.shape
        enough, dim = max(rows, LEAST_ROWS), self._net.config.dim
        every = np.empty((rows * width, dim), np.float32)
        state = np.zeros((enough, dim), np.float32)
        state[:rows] = known["hidden"][slots]
        hidden = torch.from_numpy(state)
        moves = np.zeros((rows, width - 1), np.int64)
        any_code = np.zeros(rows, np.int64)
        tables = self._history, known["told"], self._held
        for at in range(width):
            now = np.zeros((enough, dim), np.float32)
            loops.embed(chain, at, slots, *tables, now, every)
            if at == width - 1:
                break
            hidden = drafter.step(hidden, torch.from_numpy(now))
            read = drafter.read(hidden)
            move, code = np.zeros((enough, 1), np.int64), np.empty((rows, 1), np.int64)
            logits, noise = drafter.move_logits(read).numpy(), draws.move_noise
            real = move[:rows]
            loops.draw_moves(chain, at, logits, self._refused, noise, draws.move_warmth, real)
            logits = drafter.code0_logits(read, torch.from_numpy(move[:, 0])).numpy()
            loops.draw_codes(logits, draws.code_noise, at, draws.code_warmth, any_code, code)
            loops.follow(chain, at, real, code)
            moves[:, at] = real[:, 0]
        return moves, torch.from_numpy(every)

    def _check(
        self, hidden: Tensor, turn: _Turn, guesses: Ints, samples: Flags | None = None
    ) -> Out:
        """What the talker draws at every place, which guesses it meets, and the state behind the
        last frame that each row gains. samples: [rows], false where none is wanted yet.
        """
        known, slots, chain, draws = turn
        rows, width = chain.code.shape
        moves, codes = np.zeros((2, max(rows * width, LEAST_ROWS)), np.int64)
        drawn, coded = (x[: rows * width].reshape(rows, width) for x in (moves, codes))
        move_logits = self._net.move_logits(hidden).numpy()
        noises = draws.move_noise, draws.code_noise
        loops.draw_moves(chain, 0, move_logits, self._refused, noises[0], draws.move_warmth, drawn)
        code_logits = self._net.code0_logits(hidden, torch.from_numpy(moves)).numpy()
        loops.draw_codes(code_logits, noises[1], 0, draws.code_warmth, draws.top_k, coded)
        gained, (bad, ended) = np.zeros(rows, np.int64), np.zeros((2, rows), np.bool_)
        loops.gain(chain, guesses, drawn, coded, move_logits, code_logits, gained, bad)
        if samples is not None:
            gained[~samples], bad[~samples] = 0, False
        code, pointer, held, frame = (known[name] for name in CHANGING)
        loops.move_on(chain, slots, drawn, coded, gained, code, pointer, held, frame, ended)
        of_rows = hidden[: rows * width].view(rows, width, -1)
        known["hidden"][slots] = of_rows.numpy()[np.arange(rows), np.maximum(gained - 1, 0)]
        found = {"code": torch.from_numpy(coded), "move": torch.from_numpy(drawn)}
        kept = torch.from_numpy(np.maximum(gained, 1)) if samples is None else None
        return Out(
            {**found, "hidden": of_rows},
            torch.from_numpy(gained),
            torch.from_numpy(ended),
            torch.from_numpy(bad),
            kept,
        )
