"""A vesper talker's choice of a frame: a move of its pointer, then the pitch code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from ttsfamilies.base.runners.computation import Out, Rows, SlotTensors
from ttsfamilies.base.runners.kv import padded
from ttsfamilies.base.sampling import Noise, Settings, draw_ids
from ttsfamilies.vesper.net import VesperNet, moved

MOVE_DRAW: Final = -1
CODE_DRAW: Final = 0
CHANGING: Final = ("code", "pointer", "held", "frame")
MOVING: Final = (
    *(*CHANGING, "tokens", "seed", "least", "longest"),
    *("temperature", "move_temperature", "top_k"),
)
"""Numbers of the slot's state that a choice depends on."""

PointerState = Mapping[str, Tensor]
"""Where frames are chosen: [places] of each of MOVING."""


class _Chosen(NamedTuple):
    """[places] each; finite: whether the logits were."""

    move: Tensor
    code: Tensor
    finite: Tensor


class FrameChoice:
    """Chooses frames and moves the slots' state on.

    Products take padding along, for the sake of exactness; everything else leaves it out.
    """

    def __init__(self, net: VesperNet, positions: int) -> None:
        """`positions`: of the cache, for one utterance."""
        self._net = net
        self._last = positions - 1

    def embed(self, code: Tensor, told: Tensor, held: Tensor) -> Tensor:
        """What frames' positions are told, [tokens, dim]."""
        return self._net.embed_history(code) + (told + self._net.embed_held(held))

    def embed_state(self, slots: Tensor, state: SlotTensors) -> Tensor:
        """The same for the frames that the slots are about to choose."""
        code, pointer, held = (state[n].index_select(0, slots) for n in ("code", "pointer", "held"))
        return self.embed(code, state["told"][slots, pointer], held)

    def plain(
        self, hidden: Tensor, positions: Tensor, rows: Rows, state: SlotTensors, samples: Tensor
    ) -> Out:
        """A frame for each row that `samples`, from its hidden state at its position."""
        real, slots = rows.real, rows.slots[: rows.real]
        old = {name: state[name].index_select(0, slots) for name in MOVING}
        chosen = self._draw(hidden, old, self._last - positions[:real])
        gained = samples[:real] & (old["pointer"] < old["tokens"])
        new = after(old, chosen.move, chosen.code)
        for name in CHANGING:
            state[name].index_copy_(0, slots, torch.where(gained, new[name], old[name]))
        state["hidden"].index_copy_(0, slots, hidden[:real])
        frames = {
            "code": chosen.code[:, None],
            "move": chosen.move[:, None],
            "hidden": hidden[:real, None],
        }
        ended = gained & (new["pointer"] >= old["tokens"])
        return Out(frames, gained.long(), ended, samples[:real] & ~chosen.finite)

    def _draw(self, hidden: Tensor, old: PointerState, left: Tensor) -> _Chosen:
        """Move and codebook 0 at each place; `hidden` may have rows of padding."""
        real, noise = len(left), Noise(old["seed"], old["frame"])
        move_logits = self._net.move_logits(hidden)[:real]
        allowed = move_logits + self._net.refused[refusal(old, left)]
        move, _ = draw_ids(allowed, noise, MOVE_DRAW, Settings(old["move_temperature"]))
        logits = self._net.code0_logits(hidden, padded(move, len(hidden)))[:real]
        settings = Settings(old["temperature"], old["top_k"])
        code, finite = draw_ids(logits, noise, CODE_DRAW, settings)
        return _Chosen(move, code, finite & move_logits.isfinite().all(-1))


Numbers = TypeVar("Numbers", Tensor, NDArray[Any])


def after(place: Mapping[str, Numbers], move: Numbers, code: Numbers) -> dict[str, Numbers]:
    """The place of the frame that follows: CHANGING and whatever else is there."""
    pointer, held = moved(place["pointer"], place["held"], move)
    frame = place["frame"] + 1
    return {**place, "code": code, "pointer": pointer, "held": held, "frame": frame}


def refusal(place: Mapping[str, Numbers], left: Numbers) -> Numbers:
    """Which moves are refused at each place, as a row of `vesper_net.refusals`.

    The pointer stays within the utterance, leaves a token that has lasted long enough, and one a
    token is kept of the `left` frames that the cache has room for after this one.
    """
    held, tokens = place["held"], place["tokens"] - place["pointer"]
    late = (held >= place["longest"]) | (tokens > left)
    refused: Numbers = (tokens <= 1) + 2 * late + 4 * (held < place["least"])
    return refused
