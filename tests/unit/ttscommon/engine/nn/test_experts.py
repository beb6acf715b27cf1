"""A mixture of experts: what it computes, and that a row's neighbours do not change its bits."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ttscommon.engine.nn.experts import ExpertMixture, ExpertSizes, expert_sources
from ttscommon.engine.nn.weights import published_shapes

SIZES = ExpertSizes(dim=24, experts=9, chosen=3, hidden=13, shared=10)


def drawn(sizes: ExpertSizes = SIZES) -> ExpertMixture:
    torch.manual_seed(3)
    found = ExpertMixture(sizes).eval().requires_grad_(False)
    for parameter in found.parameters():
        parameter.normal_(std=0.4)
    return found


def by_hand(mixture: ExpertMixture, row: Tensor) -> Tensor:
    """Expert by expert, in float64."""
    c, x = mixture.sizes, row.double()
    logits = mixture.router.weight.double() @ x
    weights, chosen = logits[: c.experts].softmax(0).topk(c.chosen)
    if c.renormalised:
        weights = weights / weights.sum()
    total = torch.zeros(c.dim, dtype=torch.float64)
    for weight, expert in zip(weights, chosen.tolist(), strict=True):
        gate, up, down = (
            part[expert].double() for part in (mixture.gate, mixture.up, mixture.down)
        )
        total += weight * (down @ (functional.silu(gate @ x) * (up @ x)))
    if c.shared:
        total += logits[-1].sigmoid() * mixture.double().shared(x)
        mixture.float()
    return total


@pytest.mark.parametrize("shared", [0, 10])
@pytest.mark.parametrize("renormalised", [True, False])
def test_a_row_is_the_weighted_sum_of_its_experts(shared: int, renormalised: bool) -> None:
    mixture = drawn(ExpertSizes(24, 9, 3, 13, shared, renormalised))
    x = torch.randn(7, 24)
    found = mixture(x)
    wanted = torch.stack([by_hand(mixture, row) for row in x])
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5)


def test_a_row_has_the_same_bits_in_any_company() -> None:
    mixture, x = drawn(), torch.randn(64, 24)
    whole = mixture(x)
    for rows in (4, 8, 20, 40):
        for first in (0, 4, 24):
            part = mixture(x[first : first + rows])
            assert torch.equal(part, whole[first : first + rows])
    mixed = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    assert torch.equal(mixture(x[mixed]), whole[mixed])


def test_experts_are_published_one_by_one() -> None:
    mixture = drawn()
    shapes = published_shapes(mixture, expert_sources(SIZES, "", "mlp."))
    assert shapes["mlp.experts.8.down_proj.weight"] == (24, 13)
    assert shapes["mlp.gate.weight"] == (9, 24)
    assert shapes["mlp.shared_expert_gate.weight"] == (1, 24)
    assert len(shapes) == 3 * 9 + 5


def test_more_experts_than_there_are_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="cannot be chosen"):
        ExpertSizes(8, 4, 5, 8)
