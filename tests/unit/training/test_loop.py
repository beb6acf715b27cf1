"""The training loop: schedule, budget, resuming."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from voicetrain import loop
from voicetrain.loop import Losses, Schedule, autocast, bfloat16_pays, train


def test_the_rate_warms_up_and_falls_to_its_floor() -> None:
    schedule = Schedule(100.0, 1.0, warmup_steps=10, floor=0.1)
    assert schedule.rate(0, 0.0) == pytest.approx(0.1)
    assert schedule.rate(50, 0.0) == pytest.approx(1.0)
    assert schedule.rate(50, 50.0) == pytest.approx(0.55)
    assert schedule.rate(50, 500.0) == pytest.approx(0.1)


def run(model: nn.Linear, checkpoint: Path, budget_s: float) -> list[int]:
    steps: list[int] = []
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

    def losses(step: int) -> tuple[Tensor, Losses]:
        steps.append(step)
        loss = model(torch.ones(1, 4)).square().mean()
        return loss, {"loss": loss}

    train("test", model, optimizer, Schedule(budget_s, 1e-2), losses, checkpoint)
    return steps


def test_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoint = tmp_path / "net.pt"
    first = run(nn.Linear(4, 4), checkpoint, 0.2)
    fresh = nn.Linear(4, 4)
    second = run(fresh, checkpoint, 0.4)
    assert first[0] == 0
    assert second[0] == first[-1] + 1


def test_a_spent_budget_trains_no_more(tmp_path: Path) -> None:
    checkpoint = tmp_path / "net.pt"
    model = nn.Linear(4, 4)
    run(model, checkpoint, 0.2)
    again = nn.Linear(4, 4)
    assert run(again, checkpoint, 0.2) == []
    torch.testing.assert_close(again.weight, model.weight)


@pytest.mark.parametrize(("pays", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_products_are_in_bfloat16_only_where_it_pays(
    pays: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {torch.bfloat16: 1.0 if pays else 3.0, torch.float32: 2.0}
    monkeypatch.setattr(loop, "_product_s", seconds.__getitem__)
    bfloat16_pays.cache_clear()
    with autocast():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    bfloat16_pays.cache_clear()
    assert product.dtype == dtype
