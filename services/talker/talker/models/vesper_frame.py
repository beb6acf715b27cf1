"""How a vesper talker chooses frames: one a step, or several that its drafter has guessed.

Draws are a pure function of logits and noise, and the drafter is given the noise that the talker
will use for the frame. So a guess that is as likely for both comes out the same, and what is kept
are the frames that plain steps would have chosen, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

import torch
from torch import Tensor

from talker.engine.kv import LEAST_ROWS
from talker.engine.padding import padded
from talker.engine.sampling import choose, draw_keys, frame_keys, gumbel
from talker.kernels.sampling import Noise, draw_ids
from talker.models.base import Attend, Out, Rows, State
from talker.models.vesper_net import MOVES, VesperNet, moved

_MOVE_DRAW: Final = -1
_CODE_DRAW: Final = 0
_CHANGING: Final = ("code", "pointer", "held", "frame")
MOVING: Final = (
    *(*_CHANGING, "tokens", "seed", "least", "longest"),
    *("temperature", "move_temperature", "top_k"),
)
"""Numbers of the slot's state that a choice depends on."""

Place = Mapping[str, Tensor]
"""Where frames are chosen: [places] of each of MOVING."""


class _Noise(NamedTuple):
    """[..., MOVES] and [..., codes]: what draws of a frame add to their logits."""

    move: Tensor
    code: Tensor


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

    def embed_state(self, slots: Tensor, state: State) -> Tensor:
        """The same for the frames that the slots are about to choose."""
        code, pointer, held = (state[n].index_select(0, slots) for n in ("code", "pointer", "held"))
        return self.embed(code, state["told"][slots, pointer], held)

    def plain(
        self, hidden: Tensor, positions: Tensor, rows: Rows, state: State, samples: Tensor
    ) -> Out:
        """A frame for each row that `samples`, from its hidden state at its position."""
        real, slots = rows.real, rows.slots[: rows.real]
        old = {name: state[name].index_select(0, slots) for name in MOVING}
        chosen = self._draw(hidden, old, self._last - positions[:real])
        gained = samples[:real] & (old["pointer"] < old["tokens"])
        new = _after(old, chosen.move, chosen.code)
        for name in _CHANGING:
            state[name].index_copy_(0, slots, torch.where(gained, new[name], old[name]))
        state["hidden"].index_copy_(0, slots, hidden[:real])
        frames = {
            "code": chosen.code[:, None],
            "move": chosen.move[:, None],
            "hidden": hidden[:real, None],
        }
        ended = gained & (new["pointer"] >= old["tokens"])
        return Out(frames, gained.long(), ended, samples[:real] & ~chosen.finite)

    def drafted(self, rows: Rows, state: State, attend: Attend) -> Out:
        """1 to `rows.width` frames for each row, none for one whose sequence is over."""
        count, width = len(rows.slots), rows.width
        left = self._last - rows.positions[: count * width].view(count, width)
        seed, frame = (state[name].index_select(0, rows.slots) for name in ("seed", "frame"))
        ahead = torch.arange(width)
        noise = self._noise(seed[:, None].expand(-1, width), frame[:, None] + ahead)
        places, x = self._draft(rows.slots, state, left, noise)
        hidden = self._net.backbone(padded(x, LEAST_ROWS), rows.positions, attend)[: len(x)]
        flat = {name: torch.stack([p[name] for p in places], 1).flatten() for name in MOVING}
        flat_noise = _Noise(noise.move.flatten(0, 1), noise.code.flatten(0, 1))
        chosen = self._choose(padded(hidden, LEAST_ROWS), flat, left.flatten(), flat_noise)
        gained = _accepted(places, chosen.move.view(count, width), chosen.code.view(count, width))
        return self._keep(rows.slots, state, flat, chosen, hidden.view(count, width, -1), gained)

    def _draft(
        self, slots: Tensor, state: State, left: Tensor, noise: _Noise
    ) -> tuple[list[dict[str, Tensor]], Tensor]:
        """The certain place of each row and those guessed behind it, and what all are told."""
        drafter = self._net.drafter
        places = [{name: state[name].index_select(0, slots) for name in MOVING}]
        told = [self._embed_place(places[0], slots, state)]
        after = state["hidden"].index_select(0, slots)
        for ahead in range(left.shape[1] - 1):
            place = places[-1]
            after = drafter.step(after, told[-1])
            allowed = _allowed(drafter.move_logits(after), place, left[:, ahead])
            move = choose(allowed, noise.move[:, ahead], temperature=place["move_temperature"])
            logits = drafter.code0_logits(after, move)
            code = choose(logits, noise.code[:, ahead], temperature=place["temperature"])
            places.append(_after(place, move, code))
            told.append(self._embed_place(places[-1], slots, state))
        return places, torch.stack(told, 1).flatten(0, 1)

    def _embed_place(self, place: Place, slots: Tensor, state: State) -> Tensor:
        pointer = torch.minimum(place["pointer"], place["tokens"])
        return self.embed(place["code"], state["told"][slots, pointer], place["held"])

    def _keep(
        self,
        slots: Tensor,
        state: State,
        places: Place,
        chosen: _Chosen,
        hidden: Tensor,
        gained: Tensor,
    ) -> Out:
        """Move the state on behind the last of the `gained` frames of each row."""
        count, width, _ = hidden.shape
        row, last = torch.arange(count), (gained - 1).clamp(min=0)
        at = row * width + last
        old = {name: places[name][at] for name in MOVING}
        new = _after(old, chosen.move[at], chosen.code[at])
        over = gained == 0
        for name in _CHANGING:
            state[name].index_copy_(0, slots, torch.where(over, old[name], new[name]))
        state["hidden"].index_copy_(0, slots, hidden[row, last])
        kept = torch.arange(width) < gained[:, None]
        bad = (kept & ~chosen.finite.view(count, width)).any(1)
        frames = {
            "code": chosen.code.view(count, width),
            "move": chosen.move.view(count, width),
            "hidden": hidden,
        }
        ended = ~over & (new["pointer"] >= old["tokens"])
        return Out(frames, gained, ended, bad, gained.clamp(min=1))

    def _draw(self, hidden: Tensor, old: Place, left: Tensor) -> _Chosen:
        """Move and codebook 0 at each place; `hidden` may have rows of padding."""
        real, noise = len(left), Noise(old["seed"], old["frame"])
        move_logits = self._net.move_logits(hidden)[:real]
        allowed = _allowed(move_logits, old, left)
        move, _ = draw_ids(allowed, noise, _MOVE_DRAW, temperature=old["move_temperature"])
        logits = self._net.code0_logits(hidden, padded(move, len(hidden)))[:real]
        code, finite = draw_ids(
            logits, noise, _CODE_DRAW, temperature=old["temperature"], top_k=old["top_k"]
        )
        return _Chosen(move, code, finite & move_logits.isfinite().all(-1))

    def _noise(self, seed: Tensor, frame: Tensor) -> _Noise:
        """[...] int64 each; what is drawn with it depends on nothing else."""
        key = frame_keys(seed, frame)
        codes = self._net.config.codebook_size
        return _Noise(
            gumbel(draw_keys(key, _MOVE_DRAW), MOVES), gumbel(draw_keys(key, _CODE_DRAW), codes)
        )

    def _choose(self, hidden: Tensor, old: Place, left: Tensor, noise: _Noise) -> _Chosen:
        """The same as `_draw`, with noise at hand."""
        real = len(left)
        move_logits = self._net.move_logits(hidden)[:real]
        allowed = _allowed(move_logits, old, left)
        move = choose(allowed, noise.move, temperature=old["move_temperature"])
        code_logits = self._net.code0_logits(hidden, padded(move, len(hidden)))[:real]
        code = choose(code_logits, noise.code, temperature=old["temperature"], top_k=old["top_k"])
        finite = move_logits.isfinite().all(-1) & code_logits.isfinite().all(-1)
        return _Chosen(move, code, finite)


def _after(place: Place, move: Tensor, code: Tensor) -> dict[str, Tensor]:
    """The place of the frame that follows."""
    pointer, held = moved(place["pointer"], place["held"], move)
    return {
        **place,
        "code": code,
        "pointer": pointer,
        "held": held,
        "frame": place["frame"] + 1,
    }


def _accepted(places: list[dict[str, Tensor]], move: Tensor, code: Tensor) -> Tensor:
    """Frames of each row whose place was guessed right, [rows] int64; move, code: [rows, width]."""
    valid = places[0]["pointer"] < places[0]["tokens"]
    gained = valid.long()
    for ahead, (before, place) in enumerate(pairwise(places)):
        pointer, held = moved(before["pointer"], before["held"], move[:, ahead])
        same = (place["pointer"] == pointer) & (place["held"] == held)
        right = same & (place["code"] == code[:, ahead])
        valid = valid & right & (pointer < place["tokens"])
        gained = gained + valid
    return gained


def _allowed(logits: Tensor, old: Place, left: Tensor) -> Tensor:
    """Moves within the utterance, off a token that lasted long enough: [places, MOVES].

    left: [places] frames that the cache has room for after this one; one a token is kept.
    """
    held = old["held"]
    last = old["pointer"] >= old["tokens"] - 1
    refused = torch.zeros_like(logits, dtype=torch.bool)
    refused[:, 1::2] |= last[:, None]
    refused[:, 0] |= (held >= old["longest"]) | (old["tokens"] - old["pointer"] > left)
    refused[:, 1:] |= (held < old["least"])[:, None]
    return logits.masked_fill(refused, float("-inf"))
