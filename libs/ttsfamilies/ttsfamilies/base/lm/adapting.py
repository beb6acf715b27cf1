"""A family whose networks can be adapted: one bank of adapters, and the row's one in its state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor, nn

from ttscommon.engine.nn.lora import AdapterBank
from ttscommon.engine.nn.weights import Sources
from ttscommon.wire.adapters import ADAPTER
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.talker.base import NUMBER


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
