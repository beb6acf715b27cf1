"""Steps of a family whose frame is its codes: a backbone reads prompts and frames, a depth
transformer makes the frame from what the backbone leaves of each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from ttsfamilies.base.runners.computation import Attend, Prompts, Rows, SlotTensors


class CodesBackbone(Protocol):
    """Text ids and codes to states."""

    def embed(self, text: Tensor, codes: Tensor) -> Tensor: ...
    def embed_frames(self, codes: Tensor) -> Tensor: ...
    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor: ...


def prompts_read(net: CodesBackbone, rows: Prompts, attend: Attend) -> dict[str, Tensor]:
    """What is known of each row behind its prompt: `hidden` [rows, dim], and whether it `samples`
    [rows] bool.
    """
    x = net.embed(rows.inputs["text"], rows.inputs["codes"])
    hidden = net.hidden(x, rows.positions, attend)
    return {"hidden": hidden[rows.last], "samples": rows.samples}


def frames_read(
    net: CodesBackbone, rows: Rows, state: SlotTensors, attend: Attend
) -> dict[str, Tensor]:
    """The same behind each row's last frame, whose `codes` are in the state."""
    x = net.embed_frames(state["codes"][rows.slots])
    hidden = net.hidden(x, rows.positions, attend)
    samples = torch.ones(len(rows.slots), dtype=torch.bool, device=hidden.device)
    return {"hidden": hidden, "samples": samples}


def write_moved(state: SlotTensors, slots: Tensor, real: int, moved: Mapping[str, Tensor]) -> None:
    """Put the rows' new values into the state, and leave the padding's out."""
    kept = slice(real)
    for name, value in moved.items():
        state[name].index_copy_(0, slots[kept], value[kept])
