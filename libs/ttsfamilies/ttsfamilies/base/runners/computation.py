"""The device side of a family: steps over rows of tensors, in torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.launches import InputShapes
from ttscommon.engine.nn import decoder
from ttscommon.wire.fields import Array, Arrays
from ttsfamilies.base.talker.base import ModelSpec
from ttsfamilies.base.talker.streams import Results, Row, sequences

# Of one launch over one cache: each token's own sequence, all of its positions up to the token's.
Attend: TypeAlias = decoder.Attend


@dataclass(frozen=True)
class Branches:
    """Classifier-free guidance: the streams of a launch's tokens, where one may have two branches.

    Tokens of all first branches come first, one after the other in the order of the rows, then
    those of second branches. owners: [tokens] int64, the slot of each token's stream. second:
    [rows] int64, the index of the last token of each row's second branch; of its first where it has
    no other, so that guidance takes nothing from it there.
    """

    owners: Tensor
    second: Tensor


@dataclass
class Rows:
    """The rows of a launch, one a stream; padding rows have a reserved slot.

    slots: [rows] int64. positions: [tokens] int64, of every token computed, row by row. real: so
    many rows are not padding, and an `Out` may have no more; all of them where shapes are fixed.
    width: tokens of each row of a decode step, all but the first drafted by the model; rounds: so
    many steps, one behind the other, each from where the one before left a row. window:
    frames of each row of a step over segments, from its one position on; 0 for other steps.
    branches: of a family whose specification allows two; then a step has as many tokens as
    branches, or more.
    """

    slots: Tensor
    positions: Tensor
    real: int
    width: int = field(default=1, kw_only=True)
    rounds: int = field(default=1, kw_only=True)
    window: int = field(default=0, kw_only=True)
    branches: Branches | None = field(default=None, kw_only=True)


@dataclass
class Prompts(Rows):
    """Rows of any length, their tokens one after the other.

    inputs: what `ModelSpec.inputs` names, [tokens, ...]. last: [rows] int64, the index of each
    row's last token. samples: [rows] bool, false where the prompt goes on in a later launch.
    """

    inputs: Mapping[str, Tensor]
    last: Tensor
    samples: Tensor


@dataclass
class Out:
    """What a launch gives, on the device, one row a stream.

    frames: raw fields, [rows, width, ...]. gained: [rows] int, how many of them are frames.
    ended: [rows] bool. bad: [rows] bool, not finite: this row fails, alone. kept: [rows] int,
    positions that stay in the cache; None where all of them do.
    """

    frames: Mapping[str, Tensor]
    gained: Tensor
    ended: Tensor
    bad: Tensor
    kept: Tensor | None = None


SlotTensors = Mapping[str, Tensor]
# Shape and type of a row, by name.
Kept = Mapping[str, tuple[tuple[int, ...], torch.dtype]]


class Computation(ABC):
    """What runners compute with. All methods are called by the engine's thread.

    cache_dtype: of keys and values on a device, float32 if None. fixed_prompts: `prefill` has fixed
    shapes and reads nothing back, as `decode` does for all, so that prompts can be recorded too.
    """

    spec: ModelSpec
    cache_dtype: torch.dtype | None = None
    fixed_prompts: bool = False

    @abstractmethod
    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        """Compute prompts, and one frame for each that ends here (or all, if not autoregressive).

        `state` has every field as [slots, ...] and is updated in place. Raises before it changes
        any state, or not at all.
        """

    @abstractmethod
    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        """One step of every row, in fixed shapes and without reading anything back.

        Inputs come from the state. A row whose sequence is over gains nothing and stays as it is.
        """

    def render(self, raw: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Frames of many streams at once, [frames, ...]: raw fields to frame and replay fields."""
        return raw


class TwoPartComputation(Computation):
    """A Computation whose prompts and steps go separate ways up to a point, and then make their
    frames alike, side by side. hidden: what is known of a row at that point.
    """

    hidden: Kept

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        hidden = self.prompt_hidden(rows, state, attend)
        return self.make_frames(rows.slots, rows.real, state, hidden)

    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        hidden = self.step_hidden(rows, state, attend)
        return self.make_frames(rows.slots, rows.real, state, hidden)

    @abstractmethod
    def prompt_hidden(
        self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        """The first part of `prefill`: what `hidden` names, [rows, ...]. `state` stays as it is."""

    @abstractmethod
    def step_hidden(
        self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        """The first part of `decode`, likewise."""

    @abstractmethod
    def make_frames(
        self, slots: Tensor, real: int, state: SlotTensors, hidden: Mapping[str, Tensor]
    ) -> Out:
        """The second part of both, of rows of either kind side by side; see Rows and `hidden`."""


# Branches in a launch: its extra inputs for families whose streams may have two, none for others.


# Names of what is told: a row of all branches' tables for each sequence, and the fields of
# Branches.
_SEQUENCES: Final = "sequences"
_OWNERS: Final = "owners"
_SECOND: Final = "second"


class BranchInputs:
    """branches: most of a stream. padding: the slot of rows that are padding."""

    def __init__(self, branches: int, padding: int) -> None:
        self._branches, self._padding = branches, padding

    def each(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows' `sequences`."""
        return sequences(rows) if self._branches > 1 else rows

    def input_shapes(self, rows: int, tokens: int, most_sequences: int) -> InputShapes:
        """Shapes and types of `arrays`."""
        if self._branches == 1:
            return {}
        sizes = {_SEQUENCES: most_sequences, _OWNERS: tokens, _SECOND: rows}
        return {name: ((size,), "i8") for name, size in sizes.items()}

    def arrays(
        self, rows: Sequence[Row], each: Sequence[Row], tokens: int, most_sequences: int
    ) -> Arrays:
        """Of rows and their sequences, padded to so many tokens and sequences."""
        if self._branches == 1:
            return {}
        known = [row.slot * self._branches + row.branch for row in each]
        padding = [self._padding * self._branches] * (most_sequences - len(known))
        return {
            _SEQUENCES: np.array([*known, *padding]),
            _OWNERS: self._owners(each, tokens),
            _SECOND: _last_of_second(rows, each),
        }

    def of_rows(
        self, rows: Sequence[Row], each: Sequence[Row], most_rows: int, least_tokens: int
    ) -> Branches | None:
        """The same at once, on the CPU, padded to so many."""
        if self._branches == 1:
            return None
        owners = self._owners(each, max(least_tokens, sum(row.plan.count for row in each)))
        second = np.zeros(most_rows, np.int64)
        second[: len(rows)] = _last_of_second(rows, each)
        return Branches(torch.from_numpy(owners), torch.from_numpy(second))

    def of(self, told: Mapping[str, Tensor]) -> Branches | None:
        """Of what was told."""
        return None if self._branches == 1 else Branches(told[_OWNERS], told[_SECOND])

    def tables(self, told: Mapping[str, Tensor], tables: Tensor) -> Tensor:
        """[sequences, blocks] of all slots' tables [slots, branches * blocks]."""
        if self._branches == 1:
            return tables.index_select(0, told["slots"])
        at, branches = told[_SEQUENCES], self._branches
        return tables.view(len(tables), branches, -1)[at // branches, at % branches]

    def _owners(self, each: Sequence[Row], tokens: int) -> Array:
        slots = np.array([row.slot for row in each], np.int64)
        known = slots.repeat([row.plan.count for row in each]) if each else slots
        return np.append(known, np.full(tokens - len(known), self._padding))


def _last_of_second(rows: Sequence[Row], each: Sequence[Row]) -> Array:
    last = np.cumsum([row.plan.count for row in each], dtype=np.int64) - 1
    found = last[: len(rows)].copy()
    found[[row.stream.branches > 1 for row in rows]] = last[len(rows) :]
    return found


# What came back of a launch, in parts.


_TOLD: Final = ("gained", "ended", "bad", "kept")


def results_of(told: Arrays) -> Results:
    """Of all that came back, by name."""
    named = dict(told)
    return Results(named, *(named.pop(name).tolist() for name in _TOLD))


def merged(parts: Sequence[tuple[Sequence[int], Results]]) -> Results:
    """Rows of all parts, each where its indices say, as wide as the widest."""
    if len(parts) == 1:
        return parts[0][1]
    every = [part for _, part in parts]
    frames = {
        name: _placed([(indices, part.frames[name]) for indices, part in parts])
        for name in every[0].frames
    }
    order = np.argsort([index for indices, _ in parts for index in indices])
    told = ([flag for part in every for flag in getattr(part, name)] for name in _TOLD)
    return Results(frames, *([flags[index] for index in order] for flags in told))


def _placed(parts: Sequence[tuple[Sequence[int], Array]]) -> Array:
    """Rows [rows, width, ...] of all parts; behind those that are narrower stands nothing."""
    count, first = sum(len(indices) for indices, _ in parts), parts[0][1]
    width = max(array.shape[1] for _, array in parts)
    whole = np.zeros((count, width, *first.shape[2:]), first.dtype)
    for indices, array in parts:
        whole[list(indices), : array.shape[1]] = array
    return whole
