"""Preparing a broker for a deployment, changing what it keeps, and checking that it fits.

Only `antiphon bus` and a local stack create or change streams. Services verify and refuse: a
process with other settings must never change what the others rely on.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import nats.js.errors
import structlog
from nats.js.api import StreamConfig

from ttscommon.bus.faults import NO_ROOM, Unreachable, code_of, reason
from ttscommon.bus.layout import Layout, differences
from ttscommon.bus.link import Link
from ttscommon.errors import AntiphonError, BusUnavailable
from ttscommon.subjects import CODES, JOBS, Stage

T = TypeVar("T")

log_ = structlog.get_logger(__name__)


class BusUnprepared(AntiphonError):
    """The broker does not keep what this deployment needs; the text says what to do."""

    code = "bus_unavailable"


@dataclass(frozen=True)
class SetupTuning:
    """Seconds. `patience_s`: how long JetStream may take to start or to elect leaders.
    `missing_s`: how long a service waits for streams that `antiphon bus create` is about to make.
    """

    patience_s: float = 60.0
    missing_s: float = 30.0
    pause_s: float = 0.3


@dataclass(frozen=True)
class Finding:
    """A stream that is not as wanted. `missing`: it does not exist."""

    stream: str
    problems: tuple[str, ...]
    missing: bool = False

    def __str__(self) -> str:
        return f"{self.stream}: {'; '.join(self.problems)}"


class Setup:
    """The streams of one deployment."""

    def __init__(self, link: Link, tuning: SetupTuning = SetupTuning()) -> None:
        self._link = link
        self._jetstream = link.jetstream
        self._tuning = tuning

    async def inspect(self) -> list[Finding]:
        """What is not as these settings want it; raises BusUnavailable."""
        layout = await self._layout()
        findings = [await self._inspect(wanted) for wanted in layout.streams()]
        return [finding for finding in findings if finding is not None]

    async def create(self) -> list[str]:
        """Create the streams that are missing, and change none; returns their names."""
        return await self._apply(change=False)

    async def migrate(self) -> list[str]:
        """Create what is missing and change what differs; returns the names of both.

        Raises BusUnprepared for what the broker cannot change in place.
        """
        return await self._apply(change=True)

    async def verify(self) -> None:
        """Raises BusUnprepared unless everything is there as this service needs it."""
        until_s = time.monotonic() + self._tuning.missing_s
        while findings := await self.inspect():
            if not all(f.missing for f in findings) or time.monotonic() > until_s:
                problems = "\n  ".join(map(str, findings))
                raise BusUnprepared(
                    f"the broker is not prepared for '{self._link.settings.prefix}' "
                    f"(see `antiphon bus --help`):\n  {problems}"
                )
            log_.info("bus.waiting_for_streams", missing=[f.stream for f in findings])
            await asyncio.sleep(self._tuning.pause_s)

    async def ensure_consumer(self, stage: Stage, model: str) -> None:
        """Create the durable consumer that a stage's replicas share for `model`, if it is missing.

        Raises BusUnavailable.
        """
        config = Layout(self._link.settings.prefix).consumer(stage, model)
        jobs = self._link.name(JOBS)

        async def create() -> None:
            try:
                await self._jetstream.consumer_info(jobs, config.durable_name or "")
            except nats.js.errors.NotFoundError:
                await self._jetstream.add_consumer(jobs, config)

        await self._patiently(create)

    async def _apply(self, *, change: bool) -> list[str]:
        done = []
        for wanted in (await self._layout()).streams():
            finding = await self._inspect(wanted)
            if finding is None or not (finding.missing or change):
                continue
            manager = self._jetstream
            action = manager.add_stream if finding.missing else manager.update_stream
            try:
                await self._patiently(partial(action, wanted))
            except nats.js.errors.BadRequestError as error:
                raise BusUnprepared(f"{finding}: {error.description}") from error
            done.append(finding.stream)
        return done

    async def _inspect(self, wanted: StreamConfig) -> Finding | None:
        name = wanted.name or ""
        found = await self._found(name)
        if found is None:
            return Finding(name, ("missing",), missing=True)
        problems = tuple(differences(wanted, found))
        return Finding(name, problems) if problems else None

    async def _layout(self) -> Layout:
        """What the settings ask for; what they leave open stays as it is, or gets the default."""
        settings = self._link.settings
        default = Layout(settings.prefix)
        replicas, max_log_bytes = settings.replicas, settings.max_log_bytes
        if replicas is None:
            jobs = await self._found(self._link.name(JOBS))
            replicas = jobs.num_replicas if jobs else None
        if max_log_bytes is None:
            codes = await self._found(self._link.name(CODES.stream))
            max_log_bytes = codes.max_bytes if codes else None
        return Layout(
            settings.prefix, replicas or default.replicas, max_log_bytes or default.max_log_bytes
        )

    async def _found(self, name: str) -> StreamConfig | None:
        try:
            return (await self._patiently(lambda: self._jetstream.stream_info(name))).config
        except nats.js.errors.NotFoundError:
            return None

    async def _patiently(self, action: Callable[[], Awaitable[T]]) -> T:
        """Retry through elections and a JetStream that is still starting."""
        until_s = time.monotonic() + self._tuning.patience_s
        while True:
            try:
                return await action()
            except Unreachable as error:
                if code_of(error) == NO_ROOM:
                    raise BusUnprepared("the broker has too little storage for this") from error
                final = nats.js.errors.BadRequestError | nats.js.errors.NotFoundError
                if isinstance(error, final):
                    raise
                if time.monotonic() > until_s:
                    raise BusUnavailable("JetStream did not become available") from error
                log_.info("bus.waiting_for_jetstream", error=reason(error))
            await asyncio.sleep(self._tuning.pause_s * random.uniform(0.5, 1.5))
