"""The interface of a stage to its engine, wherever that is, and to the maker of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ttscommon.engine.runtime import OnStep, Sink
from ttscommon.process.metrics import Metrics
from ttscommon.wire.replicas import Model


class StageSpec(Protocol):
    """What a model or a codec says of itself."""

    @property
    def name(self) -> str: ...
    def listed(self, name: str) -> Model:
        """As the catalogue shows it, under any of the names that it serves."""


class StageEngine(Protocol):
    """What a stage and its jobs ask of either stage's engine, which is a Runtime or elsewhere.

    `error` is what killed it, if anything did. The other properties: see Replica.
    """

    metrics: Metrics
    on_step: OnStep | None

    @property
    def spec(self) -> StageSpec: ...
    @property
    def error(self) -> BaseException | None: ...
    @property
    def step_seconds(self) -> dict[int, float]: ...
    @property
    def frame_seconds(self) -> float: ...
    @property
    def kv_positions(self) -> tuple[int, int]: ...
    @property
    def slowed(self) -> float: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def listen(self, sink: Sink) -> None: ...
    def playback(self, key: str, start_s: float) -> None: ...
    def cancel(self, key: str, then: Callable[[], object]) -> None: ...
    def unpark(self, key: str) -> None: ...


E_co = TypeVar("E_co", bound=StageEngine, covariant=True)
E = TypeVar("E", bound=StageEngine)


class Build(Protocol[E_co]):
    """Makes a warmed-up engine that tells of every turn by `beat` and of its death by `died`."""

    def __call__(
        self, metrics: Metrics, *, beat: Callable[[], None], died: Callable[[], object]
    ) -> E_co: ...
