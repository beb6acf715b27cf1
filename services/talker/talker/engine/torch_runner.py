"""Launches of a torch model: stages slots, pads rows, and knows prompts from steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from talker.engine.kv import LEAST_ROWS, PagedCache
from talker.engine.padding import padded
from talker.engine.runner import LaunchPath, Results, Row
from talker.engine.state import SlotState
from talker.models.base import Attend, Out, Prompts, Rows, TalkerModel
from ttscommon.fields import Arrays, concatenate

# Rendered at once: more gains nothing in speed.
_MOST_FRAMES: Final = 64


class TorchRunner:
    """Computes on the CPU, eagerly: a launch has its results when it returns.

    With `depth` 1 they are handed out a launch late all the same, as a device would, so that
    families are held to the contract where no device is.
    """

    def __init__(self, model: TalkerModel, rows: int, blocks: int, depth: int) -> None:
        self.depth = depth
        self._model = model
        self._state = SlotState(model.spec.state, rows)
        self._caches = {name: PagedCache(spec, blocks) for name, spec in model.spec.caches.items()}

    @torch.inference_mode()
    def launch(self, rows: Sequence[Row]) -> Results:
        for row in rows:
            row.stream.stage(self._state.writer(row.slot))
        decoding = [row.plan.decode for row in rows]
        if all(decoding):
            return _results(self._decode(rows), rows)
        if not self.depth or not any(decoding):
            return _results(self._prefill(rows), rows)
        # Inputs of a row in flight are on the device alone: prompts and steps go apart.
        prompts = [row for row in rows if not row.plan.decode]
        steps = [row for row in rows if row.plan.decode]
        parts = iter(_results(self._prefill(prompts), prompts).split())
        others = iter(_results(self._decode(steps), steps).split())
        return Results.join([next(others) if step else next(parts) for step in decoding])

    def collect(self, ticket: Results) -> Results:
        return ticket

    def paths(self, ticket: Results) -> Sequence[LaunchPath]:
        del ticket
        return ("eager",)

    @torch.inference_mode()
    def render(self, raw: Arrays) -> Arrays:
        count = len(next(iter(raw.values())))
        parts = []
        for first in range(0, count, _MOST_FRAMES):
            part = {n: a[first : first + _MOST_FRAMES] for n, a in raw.items()}
            size = len(next(iter(part.values())))
            enough = {n: padded(torch.from_numpy(a), LEAST_ROWS) for n, a in part.items()}
            rendered = self._model.render(enough)
            parts.append({name: tensor[:size].numpy() for name, tensor in rendered.items()})
        return concatenate(parts)

    def _decode(self, rows: Sequence[Row]) -> Out:
        positions = [row.plan.start for row in rows]
        batch = Rows(self._slots(rows), padded(torch.tensor(positions), LEAST_ROWS), len(rows))
        return self._model.decode(batch, self._state.tensors, self._attend(rows))

    def _prefill(self, rows: Sequence[Row]) -> Out:
        inputs = concatenate([row.stream.inputs(row.plan) for row in rows])
        positions = np.concatenate([np.arange(row.plan.start, row.plan.end) for row in rows])
        last = np.cumsum([row.plan.count for row in rows]) - 1
        batch = Prompts(
            self._slots(rows),
            padded(torch.from_numpy(positions), LEAST_ROWS),
            len(rows),
            {n: padded(torch.from_numpy(a), LEAST_ROWS) for n, a in inputs.items()},
            padded(torch.from_numpy(last), LEAST_ROWS),
            padded(torch.tensor([not row.plan.partial for row in rows]), LEAST_ROWS),
        )
        return self._model.prefill(batch, self._state.tensors, self._attend(rows))

    def _slots(self, rows: Sequence[Row]) -> Tensor:
        padding = [self._state.padding] * (LEAST_ROWS - len(rows))
        return torch.tensor([*(row.slot for row in rows), *padding])

    def _attend(self, rows: Sequence[Row]) -> dict[str, Attend]:
        return {name: cache.attend(rows) for name, cache in self._caches.items()}


def _results(out: Out, rows: Sequence[Row]) -> Results:
    count = len(rows)
    return Results(
        {name: tensor[:count].numpy() for name, tensor in out.frames.items()},
        out.gained[:count].tolist(),
        out.ended[:count].tolist(),
        out.bad[:count].tolist(),
        [row.plan.count for row in rows] if out.kept is None else out.kept[:count].tolist(),
    )
