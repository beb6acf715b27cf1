"""Top-k and top-p, held to transformers' definitions by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from ttsfamilies.base.sampling.rules import NEVER, keep_mass, keep_top


def limited(
    logits: list[list[float]], temperature: list[float], top_k: list[int], top_p: list[float]
) -> Tensor:
    kept = keep_top(torch.tensor(logits), torch.tensor(top_k))
    return keep_mass(kept, torch.tensor(temperature), torch.tensor(top_p))


def kept(logits: list[float], top_k: int = 0, top_p: float = 1.0, t: float = 1.0) -> list[int]:
    out = limited([logits], [t], [top_k], [top_p])
    return torch.isfinite(out[0]).nonzero()[:, 0].tolist()


def test_the_largest_k_stay_and_ties_with_them() -> None:
    assert kept([1.0, 3.0, 2.0, 2.0, 0.0], top_k=2) == [1, 2, 3]
    assert kept([1.0, 3.0, 2.0], top_k=0) == [0, 1, 2]
    assert kept([1.0, 3.0, 2.0], top_k=9) == [0, 1, 2]


def test_the_smallest_set_that_holds_p_stays() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().tolist()
    assert kept(logits, top_p=0.6) == [0, 1]
    assert kept(logits, top_p=0.81) == [0, 1, 2]
    assert kept(logits, top_p=0.01) == [0]
    assert kept(logits, top_p=1.0) == [0, 1, 2, 3]


def test_p_counts_within_the_top_k() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().tolist()
    assert kept(logits, top_k=2, top_p=0.56) == [0]
    assert kept(logits, top_k=4, top_p=0.56) == [0, 1]


def test_each_row_has_its_own_settings() -> None:
    out = limited([[1.0, 3.0, 2.0]] * 3, [1.0, 2.0, 1.0], [0, 2, 1], [1.0, 1.0, 0.5])
    assert out.tolist() == [[1.0, 3.0, 2.0], [NEVER, 3.0, 2.0], [NEVER, 3.0, NEVER]]
