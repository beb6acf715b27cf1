"""Several frames of vesper in a step: a chain of guesses that one step of the talker checks.

Draws are a pure function of logits and noise, and the drafter is given the noise that the talker
will use for the frame. So a guess that is as likely for both comes out the same, and what is kept
are the frames that plain steps would have chosen, bit for bit
(docs/decisions/speculative-decoding.md).

For the CPU: a step is one compiled call (`step_numba`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttsfamilies.base.kernels.attention_numba import Cached
from ttsfamilies.base.runners.computation import Out, Prompts, Rows, SlotTensors
from ttsfamilies.base.sampling.noise import to_gumbel
from ttsfamilies.base.sampling.noise_numba import even_numbers
from ttsfamilies.vesper import step_numba as steps
from ttsfamilies.vesper.chain_numba import Chain, Flags, Floats, Ints
from ttsfamilies.vesper.frame import CODE_DRAW, MOVE_DRAW
from ttsfamilies.vesper.net import MOVES, VesperNet
from ttsfamilies.vesper.weights import backbone_of, guessing_of, heads_of


class Drafts:
    """Steps that may gain several frames, of a net whose products are halved. positions: of the
    cache, for one utterance.
    """

    def __init__(self, net: VesperNet, positions: int) -> None:
        self._last, self._dim = positions - 1, net.config.dim
        self._codes = net.config.codebook_size
        self._eps = np.float32(net.norm.eps)
        self._backbone, self._heads = backbone_of(net), heads_of(net, net)
        self._guessing = guessing_of(net)
        self._known: tuple[SlotTensors, dict[str, NDArray[Any]]] | None = None

    def hidden(self, x: Tensor, positions: Tensor, cached: Cached) -> Floats:
        """Of a prompt's positions, [tokens or more, dim] -> [tokens, dim]."""
        tokens = len(cached.places)
        out = np.empty((tokens, self._dim), np.float32)
        given = np.ascontiguousarray(x.numpy()[:tokens])
        steps.through(self._backbone, given, positions.numpy()[:tokens], cached, self._eps, out)
        return out

    def step(self, rows: Rows, state: SlotTensors, cached: Cached) -> Out:
        """`rows.rounds` times 1 to `rows.width` frames for each row, until its sequence is over.

        Where a row's first position is 1 its utterance begins: position 0 is computed as well, and
        lies in front of the row's others in `cached`.
        """
        known, of = self._arrays(state), rows.slots.numpy()[: rows.real]
        count = rows.width * rows.rounds
        positions = rows.positions.numpy()[: rows.real * count].reshape(rows.real, count)
        chain, draws = self._begin(known, of, rows.width, count)
        drawn = self._nothing(len(of), count)
        steps.step(
            *(self._backbone, self._guessing, self._heads, _slots(known), of, chain, draws),
            *(positions, self._last, cached, self._eps, drawn),
        )
        kept = np.maximum(drawn.gained, 1) + (positions[:, 0] == 1)
        return self._out(drawn, torch.from_numpy(kept))

    def first(self, hidden: Floats, positions: Tensor, rows: Prompts, state: SlotTensors) -> Out:
        """A frame for each prompt that ends here, from hidden states [rows, dim] at `positions`
        [rows or more].
        """
        known, of = self._arrays(state), rows.slots.numpy()[: rows.real]
        chain, draws = self._begin(known, of, 1, 1)
        drawn = self._nothing(len(of), 1)._replace(hidden=hidden)
        samples: Flags = rows.samples[: rows.real].numpy()
        ends: Ints = positions.numpy()[: rows.real, None]
        given = _slots(known), of, chain, draws, ends, self._last, samples
        steps.first(self._heads, *given, drawn)
        return self._out(drawn, None)

    def _arrays(self, state: SlotTensors) -> dict[str, NDArray[Any]]:
        """The same arrays; remembered, as a runner has one state."""
        if self._known is None or self._known[0] is not state:
            self._known = state, {name: tensor.numpy() for name, tensor in state.items()}
        return self._known[1]

    def _begin(
        self, known: dict[str, NDArray[Any]], of: Ints, width: int, count: int
    ) -> tuple[Chain, steps.StepDraws]:
        """Room for a chain, and what `count` frames of each row are drawn with."""
        code, pointer, held, left = np.empty((4, len(of), width), np.int64)
        tokens, least, longest = (known[name][of] for name in ("tokens", "least", "longest"))
        chain = Chain(code, pointer, held, tokens, least, longest, left)
        move_noise, code_noise = self._noise(known, of, count)
        warmths = known["move_temperature"][of], known["temperature"][of]
        return chain, steps.StepDraws(move_noise, code_noise, *warmths, known["top_k"][of])

    def _noise(self, known: dict[str, NDArray[Any]], of: Ints, width: int) -> tuple[Floats, Floats]:
        """`sampling.noise.gumbels`; logarithms are torch's, so that they have its bits."""
        count = len(of) * width
        both = torch.empty(count * (MOVES + self._codes))
        numbers: Floats = both.numpy()
        moves = numbers[: count * MOVES].reshape(len(of), width, MOVES)
        codes = numbers[count * MOVES :].reshape(len(of), width, self._codes)
        even_numbers(known["seed"], known["frame"], of, MOVE_DRAW, CODE_DRAW, moves, codes)
        to_gumbel(both)
        return moves, codes

    def _nothing(self, rows: int, width: int) -> steps.Drawn:
        """Where results go."""
        moves, codes = np.empty((2, rows, width), np.int64)
        ended, bad = np.zeros((2, rows), np.bool_)
        hidden = np.empty((rows * width, self._dim), np.float32)
        return steps.Drawn(moves, codes, np.zeros(rows, np.int64), ended, bad, hidden)

    def _out(self, drawn: steps.Drawn, kept: Tensor | None) -> Out:
        of_rows = drawn.hidden.reshape(*drawn.moves.shape, self._dim)
        found = {"code": drawn.codes, "move": drawn.moves, "hidden": of_rows}
        return Out(
            {name: torch.from_numpy(array) for name, array in found.items()},
            torch.from_numpy(drawn.gained),
            torch.from_numpy(drawn.ended),
            torch.from_numpy(drawn.bad),
            kept,
        )


def _slots(known: dict[str, NDArray[Any]]) -> steps.SlotArrays:
    return steps.SlotArrays(*(known[name] for name in steps.SlotArrays._fields))
