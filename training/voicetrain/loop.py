"""Parts of every training stage: a time budget, a schedule, checkpoints that resume."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from voicetrain.progress import Progress

Losses = dict[str, Tensor]


def placed(array: np.ndarray[Any, Any]) -> Tensor:
    """The array where training happens: `with torch.device(...)` says where that is."""
    return torch.from_numpy(array).to(torch.get_default_device())


def autocast() -> torch.autocast:
    """Products in bfloat16 where the default device is faster with them.

    A CPU without instructions for them takes twenty times as long as in float32.
    """
    device = torch.get_default_device().type
    enabled = device != "cpu" or bfloat16_pays()
    return torch.autocast(device, torch.bfloat16, enabled=enabled)


@cache
def bfloat16_pays() -> bool:
    """Whether this CPU multiplies faster in bfloat16 than in float32; tried out."""
    return _product_s(torch.bfloat16) < _product_s(torch.float32)


def _product_s(dtype: torch.dtype) -> float:
    a, b = torch.ones(512, 256, dtype=dtype), torch.ones(256, 256, dtype=dtype)
    times = []
    for _ in range(4):
        began = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - began)
    return min(times)


@dataclass(frozen=True)
class Schedule:
    """A stage's length and learning rate: warm up, then a cosine to `floor` of the peak.

    budget_s: processor seconds of this process, so that a busy machine does not shorten training.
    """

    budget_s: float
    peak: float
    warmup_steps: int = 100
    floor: float = 0.04
    clip: float = 1.0
    save_every_s: float = 120.0
    report_every: int = 50

    def rate(self, step: int, spent_s: float) -> float:
        """The learning rate at a step, `spent_s` into the budget."""
        part = min(1.0, spent_s / self.budget_s)
        cosine = 0.5 * (1 + math.cos(math.pi * part))
        warm = min(1.0, (step + 1) / self.warmup_steps)
        return self.peak * warm * (cosine * (1 - self.floor) + self.floor)


def _save(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_suffix(".part")
    torch.save(content, temporary)
    temporary.rename(path)


def train(
    name: str,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    losses: Callable[[int], tuple[Tensor, Losses]],
    checkpoint: Path,
    validate: Callable[[], dict[str, float]] | None = None,
) -> None:
    """Train until the budget is spent; begin again from `checkpoint` when it exists.

    losses(step): draws a batch and returns the loss to minimise and the parts to report.
    """
    step, spent = 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, spent = saved["step"], saved["spent_s"]
        torch.manual_seed(step)  # not the draws of the first steps again
    progress = Progress(name, schedule.budget_s, checkpoint.with_suffix(".jsonl"), spent)
    last_save = spent

    def save() -> None:
        _save(
            checkpoint,
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "step": step,
                "spent_s": spent,
            },
        )

    model.train()
    sums: dict[str, float] = {}
    while spent < schedule.budget_s:
        began = time.process_time()
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step, spent)
        loss, parts = losses(step)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        optimizer.step()
        step += 1
        spent += time.process_time() - began
        for key, value in parts.items():
            sums[key] = sums.get(key, 0.0) + float(value.detach()) / schedule.report_every
        if step % schedule.report_every == 0:
            progress.report(spent, step=step, **sums)
            sums = {}
        if spent - last_save > schedule.save_every_s:
            if validate is not None:
                model.eval()
                with torch.no_grad():
                    progress.report(spent, step=step, **validate())
                model.train()
            save()
            last_save = spent
    save()
