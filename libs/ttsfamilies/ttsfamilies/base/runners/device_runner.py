"""Launches on a device: one step behind, state resident, steps as graphs, prompts over buckets.

The host sends what changed and which slots run, in two copies from pinned memory; a decode step is
one recorded graph of a batch bucket and comes back as one copy. Nothing is read from the device
before `collect`, and nothing is recorded by a launch: that would stop all streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.device.transfer import Buffers
from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Array, Arrays, Field, concatenate, cut
from ttsfamilies.base.runners.computation import (
    Computation,
    TwoPartComputation,
    merged,
    results_of,
)
from ttsfamilies.base.runners.launches import TABLE, Between, Decodes, LaunchContext, Part
from ttsfamilies.base.runners.mixed import Mixed, Promptings
from ttsfamilies.base.runners.resident import DeviceCache, ResidentState
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, blocks_for
from ttsfamilies.base.talker.streams import Results, Row

# Rendered at once: more gains nothing in speed.
_MOST_FRAMES: Final = 64


@dataclass(slots=True)
class Ticket:
    """A launch in two parts, prompts and steps, and the buffers it holds."""

    parts: list[Part]
    buffers: list[Tensor]


class DeviceRunner:
    """Computes on `device`. `rows`, `blocks`: see Family.runner."""

    def __init__(
        self, model: Computation, rows: int, blocks: int, device: Device, depth: int = 1
    ) -> None:
        self.depth = depth
        self.blocks = blocks
        self.width = 1  # a recorded step has one position a row
        self._model, self._device = model, device
        self._buffers = Buffers(device)
        spec = model.spec
        most = min(spec.max_positions, blocks * BLOCK_POSITIONS or spec.max_positions)
        fields = dict(spec.state)
        if spec.caches:
            fields[TABLE] = Field((spec.branches * blocks_for(most),), "i4")
        self.state = ResidentState(fields, rows, device, self._buffers)
        with device.making():
            self._caches = {
                name: DeviceCache(cache, blocks, model.cache_dtype or torch.float32, device.where)
                for name, cache in spec.caches.items()
            }
        self._most_blocks = blocks_for(most)
        self._known: dict[int, tuple[Sequence[int], int]] = {}
        if spec.caches:
            nothing = [blocks] * (spec.branches * self._most_blocks)
            self.state.write(self.state.padding, TABLE, nothing)
        place = LaunchContext(model, self.state, self._caches, device, self._buffers, rows, most)
        self.decodes, self.prompts = Decodes(place), Promptings(place)
        self.mixed: Mixed | None = None
        if isinstance(model, TwoPartComputation):
            self.mixed = Mixed(place, Between.of(model, rows, device))
        told = self.state.flush()
        device.mark().wait()
        self._buffers.give_back(told)

    def record(self, streams: int, positions: int) -> None:
        self.decodes.record(streams, positions)
        (self.mixed or self.prompts).record(streams, positions)

    @torch.inference_mode()
    def launch(self, rows: Sequence[Row]) -> Ticket:
        for row in rows:
            row.stage(self.state.writer(row.slot))
            self._tell_blocks(row)
        steps = [index for index, row in enumerate(rows) if row.plan.decode]
        prompts = [index for index, row in enumerate(rows) if not row.plan.decode]
        ticket = Ticket([], self.state.flush())
        if prompts and self.mixed is not None:
            ticket.parts.append(self.mixed.launch(rows))
            return ticket
        # Prompts first: they may raise, and then no state has changed yet.
        for indices, launch in ((prompts, self.prompts.launch), (steps, self.decodes.launch)):
            if indices:
                ticket.parts.append(launch(indices, [rows[index] for index in indices]))
        return ticket

    def collect(self, ticket: Ticket) -> Results:
        found = [(part.indices, results_of(part.wait())) for part in ticket.parts]
        self._buffers.give_back(ticket.buffers)
        return merged(found)

    def paths(self, ticket: Ticket) -> Sequence[LaunchPath]:
        return [path for part in ticket.parts for path in part.paths]

    @torch.inference_mode()
    def render(self, raw: Arrays) -> Arrays:
        """Waits for its own results, not for steps in flight."""
        count = len(next(iter(raw.values())))
        starts = range(0, count, _MOST_FRAMES)
        parts = [self._rendered(cut(raw, start, start + _MOST_FRAMES)) for start in starts]
        return concatenate(parts)

    def _rendered(self, raw: Arrays) -> dict[str, Array]:
        with self._device.aside():
            told = {name: torch.from_numpy(a).to(self._device.where) for name, a in raw.items()}
            rendered = self._model.render(told)
            return {name: tensor.cpu().numpy() for name, tensor in rendered.items()}

    def _tell_blocks(self, row: Row) -> None:
        """Send what of the row's table the device does not know yet."""
        if not self._caches:
            return
        blocks, count = row.blocks, blocks_for(row.plan.end)
        known, told = self._known.get(row.slot, ((), 0))
        if known is not blocks:  # others' blocks, or its own from before it gave way
            told = 0
        if told < count:
            branches = row.stream.branches
            for branch in range(branches):
                of_branch, at = blocks[branch::branches], branch * self._most_blocks + told
                self.state.write(row.slot, TABLE, of_branch[told:count], at)
            self._known[row.slot] = blocks, count
