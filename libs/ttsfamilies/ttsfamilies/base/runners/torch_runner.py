"""Launches of a torch model: stages slots, pads rows, and knows prompts from steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Array, Arrays, Field, concatenate
from ttsfamilies.base.runners.computation import (
    Attend,
    BranchInputs,
    Computation,
    Out,
    Prompts,
    Rows,
    merged,
)
from ttsfamilies.base.runners.kv import LEAST_ROWS, PagedCache, padded
from ttsfamilies.base.talker.streams import Results, Row, SlotWriter

# Rendered at once: more gains nothing in speed.
_MOST_FRAMES: Final = 64
_ALIGNMENT: Final = 8
_DTYPES: Final = {
    "u1": torch.uint8,
    "i2": torch.int16,
    "i4": torch.int32,
    "i8": torch.int64,
    "f2": torch.float16,
    "f4": torch.float32,
}


class TorchRunner:
    """Computes on the CPU, eagerly: a launch has its results when it returns.

    With `depth` 1 they are handed out a launch late all the same, as a device would, so that
    families are held to the contract where no device is.
    """

    def __init__(self, model: Computation, rows: int, blocks: int, depth: int) -> None:
        self.depth = depth
        self.width = model.spec.width
        self._model = model
        self._state = SlotState(model.spec.state, rows)
        self._branches = BranchInputs(model.spec.branches, self._state.padding)
        self._caches = {name: PagedCache(spec, blocks) for name, spec in model.spec.caches.items()}

    def record(self, streams: int, positions: int) -> None:
        """An eager launch needs none."""

    @torch.inference_mode()
    def launch(self, rows: Sequence[Row]) -> Results:
        for row in rows:
            row.stage(self._state.writer(row.slot))
        if not self._apart(rows):
            return self._launch(rows)
        parts = []
        for kind in sorted({_kind(row) for row in rows}):
            some = [i for i, row in enumerate(rows) if _kind(row) == kind]
            parts.append((some, self._launch([rows[i] for i in some])))
        return merged(parts)

    def collect(self, ticket: Results) -> Results:
        return ticket

    def paths(self, ticket: Results) -> Sequence[LaunchPath]:
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

    def _apart(self, rows: Sequence[Row]) -> bool:
        """Whether the rows cannot share a launch: steps of different widths, or drafts and prompts;
        with launches in flight inputs of a step are on the device alone, so prompts go apart.
        """
        kinds = {_kind(row) for row in rows}
        return len(kinds) > 1 and (self.depth > 0 or max(kinds) > (1, 1))

    def _launch(self, rows: Sequence[Row]) -> Results:
        decode = all(row.plan.decode for row in rows)
        return _results(self._decode(rows) if decode else self._prefill(rows), rows)

    def _decode(self, rows: Sequence[Row]) -> Out:
        if rows[0].plan.certain:
            return self._window(rows)
        plan, each = rows[0].plan, self._branches.each(rows)
        count = plan.width * plan.rounds
        ends = [row.plan.end for row in each]
        positions = torch.tensor([at for end in ends for at in range(end - count, end)])
        slots, positions = self._slots(rows, count), padded(positions, LEAST_ROWS)
        branches = self._branches.of_rows(rows, each, len(slots), LEAST_ROWS)
        shape = {"width": plan.width, "rounds": plan.rounds}
        batch = Rows(slots, positions, len(rows), **shape, branches=branches)
        return self._model.decode(batch, self._state.tensors, self._attend(each))

    def _window(self, rows: Sequence[Row]) -> Out:
        """So many frames of each row's segment."""
        slots, starts = ([of(row) for row in rows] for of in (_slot, _start))
        batch = Rows(
            *(torch.tensor(slots), torch.tensor(starts), len(rows)), window=rows[0].plan.count
        )
        return self._model.decode(batch, self._state.tensors, self._attend(rows))

    def _prefill(self, rows: Sequence[Row]) -> Out:
        each, slots = self._branches.each(rows), self._slots(rows)
        inputs = concatenate([row.stream.inputs(row.plan, row.branch) for row in each])
        positions = np.concatenate([np.arange(row.plan.start, row.plan.end) for row in each])
        last = np.cumsum([row.plan.count for row in rows]) - 1
        batch = Prompts(
            slots,
            padded(torch.from_numpy(positions), LEAST_ROWS),
            len(rows),
            {n: padded(torch.from_numpy(a), LEAST_ROWS) for n, a in inputs.items()},
            padded(torch.from_numpy(last), LEAST_ROWS),
            padded(torch.tensor([not row.plan.partial for row in rows]), LEAST_ROWS),
            branches=self._branches.of_rows(rows, each, len(slots), LEAST_ROWS),
        )
        return self._model.prefill(batch, self._state.tensors, self._attend(each))

    def _slots(self, rows: Sequence[Row], width: int = 1) -> Tensor:
        """Padding for steps and prompts alone: drafts make rows enough for exact products."""
        padding = [self._state.padding] * (LEAST_ROWS - len(rows) if width == 1 else 0)
        return torch.tensor([*(row.slot for row in rows), *padding])

    def _attend(self, rows: Sequence[Row]) -> dict[str, Attend]:
        return {name: cache.attend(rows) for name, cache in self._caches.items()}


def _kind(row: Row) -> tuple[int, int]:
    """0 for a prompt, else the width of the step; more than 1 for frames of a segment. And its
    rounds.
    """
    plan = row.plan
    return plan.width + plan.certain if plan.decode else 0, plan.rounds


def _slot(row: Row) -> int:
    return row.slot


def _start(row: Row) -> int:
    return row.plan.start


def _results(out: Out, rows: Sequence[Row]) -> Results:
    count = len(rows)
    return Results(
        {name: tensor[:count].numpy() for name, tensor in out.frames.items()},
        out.gained[:count].tolist(),
        out.ended[:count].tolist(),
        out.bad[:count].tolist(),
        [row.plan.count for row in rows] if out.kept is None else out.kept[:count].tolist(),
    )


class SlotState:
    """`rows` rows of the fields, and one more that padding reads and writes.

    tensors: [rows + 1, *shape] by field. All fields of a slot lie side by side, so that whatever
    the host changes in a launch can travel as one copy.
    """

    def __init__(self, fields: Mapping[str, Field], rows: int) -> None:
        offsets, width = {}, 0
        for name, field in fields.items():
            offsets[name] = width
            size = field.size * np.dtype(field.dtype).itemsize
            width += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.padding = rows
        self._bytes = torch.zeros(rows + 1, max(width, _ALIGNMENT), dtype=torch.uint8)
        self.tensors: dict[str, Tensor] = {
            name: self._view(field, offsets[name]) for name, field in fields.items()
        }
        self._host: dict[str, Array] = {name: view.numpy() for name, view in self.tensors.items()}

    def _view(self, field: Field, offset: int) -> Tensor:
        size = field.size * np.dtype(field.dtype).itemsize
        rows = self._bytes[:, offset : offset + size].view(_DTYPES[field.dtype])
        return rows.view(len(rows), *field.shape) if field.shape else rows[:, 0]

    def writer(self, slot: int) -> SlotWriter:
        """Writes the slot's row."""
        return partial(self._write, slot)

    def _write(self, slot: int, name: str, value: Any, at: int = 0) -> None:
        array = self._host[name]
        if array.ndim == 1:
            array[slot] = value
        else:
            array[slot, at : at + len(value)] = value
