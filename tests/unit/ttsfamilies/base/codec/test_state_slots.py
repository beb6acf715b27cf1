"""States on a device, a row each."""

import pytest
import torch

from ttscommon.engine.slots import NoSlot
from ttsfamilies.base.codec.executor import StateSlots


def resident(rows: int = 2) -> StateSlots:
    blank = {"tail": torch.tensor([5.0, 6.0]), "position": torch.tensor(7)}
    return StateSlots(blank, rows, torch.device("cpu"))


def test_what_was_written_is_read_again() -> None:
    states, slots = resident(), torch.tensor([1, 0])
    states.write(slots, {"tail": torch.ones(2, 2), "position": torch.tensor([3, 4])})
    found = states.read(torch.tensor([0, 1]), torch.tensor([False, False]))
    assert found["position"].tolist() == [4, 3]
    assert found["tail"].tolist() == [[1, 1], [1, 1]]


def test_a_fresh_row_is_blank_whatever_it_held() -> None:
    states = resident()
    states.tensors["tail"].fill_(torch.nan)
    found = states.read(torch.tensor([1, 0]), torch.tensor([True, False]))
    assert found["tail"][0].tolist() == [5, 6]
    assert found["tail"][1].isnan().all()
    assert found["position"].tolist() == [7, 0]


def test_rows_are_taken_and_given_back_once() -> None:
    states = resident()
    rows = [states.take(), states.take()]
    assert states.padding not in rows
    with pytest.raises(NoSlot):
        states.take()
    states.give_back(rows[0])
    assert states.take() == rows[0]
    states.give_back(rows[1])
    with pytest.raises(AssertionError, match="twice"):
        states.give_back(rows[1])
