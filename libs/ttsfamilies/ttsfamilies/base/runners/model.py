"""Both sides of a family in one: what all families that compute with torch are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple

import structlog
from torch import Tensor, nn

from ttscommon.engine.device.device import Device
from ttscommon.engine.nn.lora import AdapterBank
from ttscommon.engine.nn.weights import Sources
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import ADAPTER
from ttsfamilies.base.runners.computation import Computation
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.runners.torch_runner import TorchRunner
from ttsfamilies.base.sampling import Noise
from ttsfamilies.base.talker.base import NUMBER, Family
from ttsfamilies.base.talker.runner import Runner

log_ = structlog.get_logger(__name__)


class TalkerModel(Family, Computation):
    """A family with its device side.

    noise: what ids are drawn by. device: where its weights are, if not on the CPU, and what
    computes there. most_positions: of a prompt and its speech, where the cache holds fewer than the
    specification allows.
    """

    noise: type[Noise] = Noise
    device: Device | None = None
    most_positions: int | None = None

    @property
    def positions(self) -> int:
        """Of a prompt and its speech."""
        return min(self.spec.max_positions, self.most_positions or self.spec.max_positions)

    def fit(self, positions: int) -> None:
        self.most_positions = positions

    def compute_on(self, device: Device | None) -> None:
        """From now on runners launch there, and a step behind; the weights are there already."""
        self.device = device
        self.depth, self.exact = int(device is not None), device is None
        if device is not None and self.cache_dtype is not None:
            self.cache_itemsize = self.cache_dtype.itemsize

    def aside(self) -> AbstractContextManager[object]:
        return nullcontext() if self.device is None else self.device.aside()

    def adapt(self, slots: int, most_rank: int) -> None:
        """Have place for so many adapters, before a runner is made; see Adaptable.

        A family that cannot is served without, as its `accepts` says.
        """
        log_.warning("adapters.unsupported", family=self.spec.family, adapters=slots)

    def free_bytes(self) -> int | None:
        return None if self.device is None else self.device.free_bytes()

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        if self.device is not None:
            return DeviceRunner(self, rows, blocks, self.device, depth)
        return TorchRunner(self, rows, blocks, depth)


# A family whose networks can be adapted: one bank of adapters, and the row's one in its state.


class AdaptedParts(NamedTuple):
    """sources: what checkpoints call the network's parameters; every linear module that they name
    may be adapted. roots: what training may have left out at the beginning of the names.
    """

    net: nn.Module
    sources: Sources
    roots: Sequence[str]


class AdaptingModel(TalkerModel):
    """A subclass has `prepare` ask for `row_of`, its stream write that as ADAPTER into its slot and
    its prompts' inputs, and its steps compute within `rows`.
    """

    _bank: AdapterBank | None = None

    @abstractmethod
    def adapted_parts(self) -> AdaptedParts:
        """What may be adapted."""

    def adapt(self, slots: int, most_rank: int) -> None:
        net, sources, roots = self.adapted_parts()
        device = self.device
        self.adapters = self._bank = AdapterBank(
            *(net, sources, slots, most_rank),
            roots=roots,
            fixed=device is not None,
            beside=nullcontext if device is None else device.aside,
        )
        spec, own = self.spec, {ADAPTER: NUMBER}
        self.spec = replace(
            spec,
            accepts=spec.accepts | {ADAPTER},
            state={**spec.state, **own},
            inputs={**spec.inputs, **own},
        )

    def row_of(self, request: SpeechRequest) -> int | None:
        """The id of the request's rows, 0 without an adapter; None where none are served.

        Raises UnknownAdapter for one that is not held.
        """
        if self._bank is None:
            return None
        return 0 if request.adapter is None else self._bank.row_id(request.adapter.digest)

    def rows(self, ids: Callable[[], Tensor]) -> AbstractContextManager[None]:
        """What is computed inside is of rows with these ids; see AdapterBank.rows."""
        return nullcontext() if self._bank is None else self._bank.rows(ids())
