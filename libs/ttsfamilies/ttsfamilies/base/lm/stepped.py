"""Steps of a family whose frame is its codes: a backbone reads prompts and frames, a depth
transformer makes the frame from what the backbone leaves of each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from ttsfamilies.base.runners.computation import (
    Attend,
    Out,
    Prompts,
    Rows,
    SlotTensors,
    TwoPartComputation,
)
from ttsfamilies.base.runners.model import TalkerModel


class CodesBackbone(Protocol):
    """Text ids and codes to states."""

    def embed(self, text: Tensor, codes: Tensor) -> Tensor: ...
    def embed_frames(self, codes: Tensor) -> Tensor: ...
    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor: ...


class CodesModel(TalkerModel, TwoPartComputation):
    """Subclasses make frames of `hidden` [rows, dim]. Positions hold `text` and `codes`, the state
    the `codes` of each row's last frame; there is one cache.
    """

    fixed_prompts = True

    def read_by(self, backbone: CodesBackbone, dim: int, dtype: torch.dtype) -> None:
        """To be called before anything is computed."""
        self._backbone, self.cache_dtype = backbone, dtype
        self.hidden = {"hidden": ((dim,), dtype), "samples": ((), torch.bool)}

    def prompt_hidden(
        self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        (cache,) = attend.values()
        x = self._backbone.embed(rows.inputs["text"], rows.inputs["codes"])
        hidden = self._backbone.hidden(x, rows.positions, cache)
        return {"hidden": hidden[rows.last], "samples": rows.samples}

    def step_hidden(
        self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        (cache,) = attend.values()
        x = self._backbone.embed_frames(state["codes"][rows.slots])
        hidden = self._backbone.hidden(x, rows.positions, cache)
        samples = torch.ones(len(rows.slots), dtype=torch.bool, device=hidden.device)
        return {"hidden": hidden, "samples": samples}


def finished(
    state: SlotTensors,
    slots: Tensor,
    real: int,
    moved: Mapping[str, Tensor],
    frames: Mapping[str, Tensor],
    said: tuple[Tensor, Tensor, Tensor],
) -> Out:
    """A step that was computed for all rows: the state is moved on, and the frames are given.

    Products take the padding along, for the sake of exactness; state and frames leave it out.
    moved: new values of the state by name. frames: [rows, ...] by name. said: of each row whether
    it gained its frame, ended its sequence, and is not finite, [rows] bool each.
    """
    kept = slice(real)
    for name, value in moved.items():
        state[name].index_copy_(0, slots[kept], value[kept])
    gained, ended, bad = said
    given = {name: frame[kept, None] for name, frame in frames.items()}
    return Out(given, gained.long()[kept], ended[kept], bad[kept])
