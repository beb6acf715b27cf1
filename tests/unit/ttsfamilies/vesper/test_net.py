"""The vesper talker's parts: pointer, encoders, lookup, and that rows do not touch each other."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttscommon.engine.nn import halve
from ttsfamilies.vesper.frame import refusal
from ttsfamilies.vesper.net import MOVES, VesperConfig, VesperNet, refusals
from ttsfamilies.vesper.text import TextCodes

SMALL = VesperConfig(
    symbols=20, codebook_size=24, text_codes=16, text_dim=16, prosody_dim=16, dim=32, layers=2,
    heads=2, hidden=48, energy_hidden=32, draft_hidden=32, positions=128,
)  # fmt: skip
LEAST_ROWS = 4


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _net(seed: int = 0) -> VesperNet:
    torch.manual_seed(seed)
    net = VesperNet(SMALL)
    net.text_table.data = torch.randn_like(net.text_table)
    return net.eval()


def _alone(_layer: int, _q: Tensor, _k: Tensor, v: Tensor) -> Tensor:
    return v


def test_text_codes_are_the_nearest_entries_of_one_or_two_tokens() -> None:
    net = _net()
    coarse, fine = net.text_table
    units = torch.stack([coarse[3] + 0.1 * fine[5], coarse[9]]).view(2, 2, -1)
    rest = (units.flatten(1) - coarse[[3, 9]])[:, None] - fine
    nearest_fine = rest.square().sum(-1).argmin(1)
    assert TextCodes(net.text_table)(units).tolist() == [[3, nearest_fine[0]], [9, nearest_fine[1]]]


@pytest.mark.parametrize("halved", [False, True], ids=["float32", "float16 weights"])
def test_a_frames_logits_do_not_depend_on_the_rows_beside_it(halved: bool) -> None:
    net = _net()
    if halved and not halve(net):
        pytest.skip("nothing can be compiled")
    torch.manual_seed(1)
    x, positions = torch.randn(40, SMALL.dim), torch.arange(40)
    move, code = torch.randint(0, MOVES, (40,)), torch.randint(0, SMALL.codebook_size, (40,))
    with torch.inference_mode():
        for rows in (LEAST_ROWS, 5, 7, 16, 33):
            for first in (0, 3):
                part = slice(first, first + rows)
                few = _everything(net, x[part], positions[part], move[part], code[part])
                many = _everything(net, x, positions, move, code)
                for one, other in zip(few, many, strict=True):
                    assert torch.equal(one, other[part])


def _everything(
    net: VesperNet, x: Tensor, positions: Tensor, move: Tensor, code: Tensor
) -> list[Tensor]:
    hidden = net.backbone(x, positions, _alone)
    state = net.drafter.step(hidden, x)
    return [
        net.move_logits(hidden),
        net.code0_logits(hidden, move),
        net.energy_logits(hidden, move, code),
        net.drafter.move_logits(net.drafter.read(state)),
        net.drafter.code0_logits(net.drafter.read(state), move),
    ]


def place(**changes: int) -> dict[str, NDArray[np.int64]]:
    told = {"pointer": 3, "tokens": 9, "held": 4, "least": 0, "longest": 8, **changes}
    return {name: np.array([value]) for name, value in told.items()}


@pytest.mark.parametrize(
    ("changes", "left", "allowed"),
    [
        ({}, 50, [0, 1, 2, 3]),
        ({"pointer": 8}, 50, [0, 2]),
        ({"held": 8}, 50, [1, 2, 3]),
        ({"held": 8, "pointer": 8}, 50, [2]),
        ({}, 5, [1, 2, 3]),
        ({"least": 6, "longest": 6}, 50, [0]),
    ],
)
def test_moves_stay_inside_and_leave_in_time(
    changes: dict[str, int], left: int, allowed: list[int]
) -> None:
    (row,) = refusal(place(**changes), np.array([left]))
    assert torch.isfinite(refusals()[int(row)]).nonzero().flatten().tolist() == allowed
