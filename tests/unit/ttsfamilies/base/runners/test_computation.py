"""Families that make their frames in two parts, with parts that only note what they are given."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from ttsfamilies.base.runners.computation import Out, Prompts, Rows, TwoPartComputation

SLOTS = torch.tensor([4, 2])
ROWS: Any = Rows(SLOTS, torch.tensor([0, 0]), 2)


class Backbones(TwoPartComputation):
    """Has no frames to make."""

    def prompt_hidden(self, rows: Prompts, state: Any, attend: Any) -> dict[str, Tensor]:
        return {"from": torch.zeros(rows.real)}

    def step_hidden(self, rows: Rows, state: Any, attend: Any) -> dict[str, Tensor]:
        return {"from": torch.ones(rows.real)}


class Whole(Backbones):
    def make_frames(
        self, slots: Tensor, real: int, state: Any, hidden: Mapping[str, Tensor]
    ) -> Out:
        gained = torch.full((real,), int(state["step"]))
        return Out({"from": hidden["from"], "slots": slots}, gained, gained > 9, gained > 9)


def test_a_family_lacks_no_part() -> None:
    with pytest.raises(TypeError, match="make_frames"):
        Backbones()  # type: ignore[abstract]


@pytest.mark.parametrize(("name", "source"), [("prefill", 0.0), ("decode", 1.0)])
def test_a_prompt_and_a_step_make_frames_alike_of_what_their_own_part_left(
    name: str, source: float
) -> None:
    out = getattr(Whole(), name)(ROWS, {"step": torch.tensor(3)}, {})
    assert out.frames["from"].tolist() == [source, source]
    assert out.frames["slots"].tolist() == [4, 2]
    assert out.gained.tolist() == [3, 3]
