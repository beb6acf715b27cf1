"""Steps of a family whose frame is its codes: a backbone reads prompts and frames, a depth
transformer makes the frame from what the backbone leaves of each row.
"""

from __future__ import annotations

from abc import abstractmethod
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
    """Subclasses draw frames of `hidden` [rows, dim]. Positions hold `text` and `codes`, the state
    the `codes` of each row's last frame, their number `frame` and whether it is `over`; there is
    one cache. moving: names of the state that a step reads.
    """

    fixed_prompts = True
    moving: tuple[str, ...]

    @abstractmethod
    def drawn(self, hidden: Tensor, old: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """[rows, dim] -> codes [rows, codebooks], and whether they end the speech and are finite,
        [rows] bool each. old: the state.
        """

    def remembered(
        self, old: Mapping[str, Tensor], codes: Tensor, gained: Tensor
    ) -> dict[str, Tensor]:
        """More of the state behind frames, of those rows that `gained` one."""
        del old, codes, gained
        return {}

    def make_frames(
        self, slots: Tensor, real: int, state: SlotTensors, hidden: Mapping[str, Tensor]
    ) -> Out:
        old = {name: state[name].index_select(0, slots) for name in self.moving}
        codes, ends, finite = self.drawn(hidden["hidden"], old)
        active = hidden["samples"] & (old["over"] == 0)
        ended, gained = active & ends, active & ~ends
        moved = {
            "codes": torch.where(gained[:, None], codes, old["codes"]),
            "frame": old["frame"] + gained,
            "over": old["over"] + ended,
            **self.remembered(old, codes, gained),
        }
        said = gained, ended, hidden["samples"] & ~finite
        return finished(state, slots, real, moved, {"codes": codes.to(torch.int16)}, said)

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
