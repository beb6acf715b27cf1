"""The training loop: schedule, budget, resuming."""

import json
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


def run(model: nn.Linear, checkpoint: Path, steps_s: float) -> list[int]:
    """The steps of so many seconds, of which each takes one."""
    steps: list[int] = []
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

    def losses(step: int) -> tuple[Tensor, Losses]:
        steps.append(step)
        loss = model(torch.ones(1, 4)).square().mean()
        return loss, {"loss": loss}

    train("test", model, optimizer, Schedule(steps_s, 1e-2, report_every=2), losses, checkpoint)
    return steps


@pytest.mark.usefixtures("clock")
def test_training_goes_on_where_it_stopped_until_its_budget_is_spent(tmp_path: Path) -> None:
    checkpoint, trained, again = tmp_path / "net.pt", nn.Linear(4, 4), nn.Linear(4, 4)
    assert run(nn.Linear(4, 4), checkpoint, 3) == [0, 1, 2]
    assert run(trained, checkpoint, 5) == [3, 4]
    assert run(again, checkpoint, 5) == []
    curve = checkpoint.with_suffix(".jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in curve] == [2, 4]
    torch.testing.assert_close(again.weight, trained.weight)


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
