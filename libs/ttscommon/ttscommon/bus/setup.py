"""Preparing a broker for a deployment, changing what it keeps, and checking that it fits."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Final, Literal, TypeVar

import nats.js.errors
import structlog
from nats.js.api import StreamConfig

from ttscommon.bus.faults import NO_ROOM, BusUnprepared, Unreachable, code_of, reason
from ttscommon.bus.layout import Layout, differences, is_of_newer_release, slots_of
from ttscommon.bus.link import Link
from ttscommon.process.settings import BusSettings
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import CODES, RETIRED_JOBS, STAGES, TALKER, Stage

log_ = structlog.get_logger(__name__)

_PAUSE_S = 0.3


async def refuse_orphans(link: Link, timeout_s: float) -> None:
    """Raises BusUnprepared if the account has had bytes and no stream for `timeout_s`.

    A cluster that has just started may need a moment until it counts its streams.
    """
    until_s = time.monotonic() + timeout_s
    while held := await _bytes_without_streams(link):
        if time.monotonic() > until_s:
            raise BusUnprepared(
                f"the broker holds {held} bytes in streams that its cluster does not know, and "
                "will delete them within 30 s: a single broker's store joined the cluster. Stop "
                "that broker now; see docs/operations.md, 'From one broker to three'"
            )
        await asyncio.sleep(_PAUSE_S)


async def _bytes_without_streams(link: Link) -> int:
    """0 where there are streams, or where this user may not ask."""
    try:
        info = await asyncio.wait_for(link.jetstream.account_info(), link.api_s)
    except Unreachable as error:
        log_.warning("bus.orphans_unknown", error=reason(error))
        return 0
    return 0 if info.streams else int(info.storage)


Action = Literal["create", "migrate", "check"]
ACTIONS: Final[tuple[Action, ...]] = ("create", "migrate", "check")
T = TypeVar("T")


@dataclass(frozen=True)
class SetupTuning:
    """Making and verifying what the broker keeps."""

    timeout_s: float = 60.0
    """How long JetStream may take to start or to elect leaders."""
    missing_s: float = 30.0
    """How long a service waits for streams that `antiphon bus create` is about to make."""
    pause_s: float = 0.3
    """Between two attempts."""
    orphans_s: float = 2.0
    """How long storage without streams must last before it is taken for orphans."""


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

    async def inspect(self, models: Sequence[str] = ()) -> list[Finding]:
        """What is not as these settings want it, for the user `setup`; raises BusUnavailable.

        models: those whose queues need a consumer.
        """
        retired, found = self._link.name(RETIRED_JOBS), await self._findings()
        if await self._found(retired) is not None:
            found.insert(0, Finding(retired, ("was replaced by a stream for each stage",)))
        missing = [f.stream for f in found if f.missing]
        for stage, model in product(STAGES.values(), models):
            jobs, durable = self._link.name(stage.stream), self._link.name(stage.durable(model))
            if jobs not in missing and not await self._has_consumer(jobs, durable):
                found.append(Finding(durable, ("missing",), missing=True))
        return found

    async def replicas(self) -> int:
        """Copies of each stream: as these settings say, or as it is; raises BusUnavailable."""
        return (await self._layout()).replicas

    async def create(self) -> list[str]:
        """Create the streams that are missing, and change none; returns their names."""
        return await self._apply(change=False)

    async def migrate(self) -> list[str]:
        """Create what is missing and change what differs; returns the names of both.

        Raises BusUnprepared for what the broker cannot change in place.
        """
        return await self._apply(change=True)

    async def verify(self) -> None:
        """Raises BusUnprepared unless everything is there as this service needs it.

        A newer release prepares the broker before it replaces services: one that restarts in
        between works with what it finds.
        """
        until_s = time.monotonic() + self._tuning.missing_s
        while findings := await self._findings(accept_newer=True):
            if not all(f.missing for f in findings) or time.monotonic() > until_s:
                problems = "\n  ".join(map(str, findings))
                raise BusUnprepared(
                    f"the broker is not prepared for '{self._link.settings.prefix}' "
                    f"(see `antiphon bus --help`):\n  {problems}"
                )
            log_.info("bus.waiting_for_streams", missing=[f.stream for f in findings])
            await asyncio.sleep(self._tuning.pause_s)

    async def create_consumers(self, models: Sequence[str]) -> list[str]:
        """The consumers of all stages' queues for `models`; returns the names of those made."""
        every = list(product(STAGES.values(), models))
        made = [await self._patiently(partial(self._make_consumer, *each)) for each in every]
        return [
            self._link.name(stage.durable(model))
            for (stage, model), new in zip(every, made, strict=True)
            if new
        ]

    async def ensure_consumer(self, stage: Stage, model: str) -> None:
        """Create the durable consumer that a stage's replicas share for `model`, if it is missing.

        Where services have users of their own, only `setup` may. Raises BusUnavailable, or
        BusUnprepared where the broker is too old for it.
        """
        await self._patiently(lambda: self._make_consumer(stage, model))

    async def restore_consumer(self, stage: Stage, model: str) -> None:
        """`ensure_consumer`, tried once: for a broker that may have lost it."""
        try:
            await self._make_consumer(stage, model)
        except (*Unreachable, BusUnprepared) as error:
            log_.debug("consumer.unseen", model=model, error=reason(error))

    async def _make_consumer(self, stage: Stage, model: str) -> bool:
        """False if it is there."""
        config = Layout(self._link.settings.prefix).consumer(stage, model)
        jobs = self._link.name(stage.stream)
        if await self._has_consumer(jobs, config.durable_name or ""):
            return False
        try:
            await self._jetstream.add_consumer(jobs, config)
        except nats.js.errors.BadRequestError as error:
            reason_ = f"{error.description}; NATS 2.12 or later is needed"
            raise BusUnprepared(f"{config.durable_name}: {reason_}") from error
        except TimeoutError:
            hint = f"antiphon bus migrate --model {model}"
            log_.warning("consumer.missing", consumer=config.durable_name, made_by=hint)
            raise
        log_.info("consumer.made", stream=jobs, consumer=config.durable_name)
        return True

    async def _has_consumer(self, stream: str, durable: str) -> bool:
        try:
            await self._jetstream.consumer_info(stream, durable)
        except nats.js.errors.NotFoundError:
            return False
        return True

    async def _apply(self, *, change: bool) -> list[str]:
        done = []
        layout = await self._layout()
        await refuse_orphans(self._link, self._tuning.orphans_s)
        first_seq = await self._retire() if change else 0
        for wanted in layout.streams():
            finding = await self._inspect(wanted)
            if finding is None or not (finding.missing or change):
                continue
            manager = self._jetstream
            action = manager.add_stream if finding.missing else manager.update_stream
            if finding.missing and first_seq and wanted.name in self._queues:
                wanted = replace(wanted, first_seq=first_seq)
            try:
                await self._patiently(partial(action, wanted))
            except nats.js.errors.BadRequestError as error:
                raise BusUnprepared(f"{finding}: {error.description}") from error
            done.append(finding.stream)
        return done

    async def _findings(self, *, accept_newer: bool = False) -> list[Finding]:
        streams = (await self._layout()).streams()
        findings = [await self._inspect(wanted, accept_newer=accept_newer) for wanted in streams]
        return [finding for finding in findings if finding is not None]

    @property
    def _queues(self) -> list[str]:
        return [self._link.name(stage.stream) for stage in STAGES.values()]

    async def _retire(self) -> int:
        """Delete the queue that both stages shared; returns the sequence that would have been next.

        Epochs are made of sequences, and requests of before may be heard again: they must grow.
        """
        name = self._link.name(RETIRED_JOBS)
        try:
            info = await self._patiently(lambda: self._jetstream.stream_info(name))
        except nats.js.errors.NotFoundError:
            return 0
        await self._patiently(lambda: self._jetstream.delete_stream(name))
        log_.warning("bus.retired", stream=name, jobs=info.state.messages)
        return info.state.last_seq + 1

    async def _inspect(self, wanted: StreamConfig, *, accept_newer: bool = False) -> Finding | None:
        name = wanted.name or ""
        found = await self._found(name)
        if found is None:
            return Finding(name, ("missing",), missing=True)
        if accept_newer and is_of_newer_release(found):
            return None
        problems = tuple(differences(wanted, found))
        return Finding(name, problems) if problems else None

    async def _layout(self) -> Layout:
        """What the settings ask for; what they leave open stays as it is, or gets the default."""
        settings = self._link.settings
        default = Layout(settings.prefix)
        codes = await self._found(self._link.name(CODES.stream))
        jobs = await self._found(self._link.name(TALKER.stream))
        replicas = settings.replicas or (codes and codes.num_replicas)
        max_log_bytes = settings.max_log_bytes or (codes and codes.max_bytes)
        slots = settings.slots or (jobs and slots_of(jobs))
        return Layout(
            settings.prefix,
            replicas or default.replicas,
            max_log_bytes or default.max_log_bytes,
            slots or default.slots,
        )

    async def _found(self, name: str) -> StreamConfig | None:
        try:
            return (await self._patiently(lambda: self._jetstream.stream_info(name))).config
        except nats.js.errors.NotFoundError:
            return None

    async def _patiently(self, action: Callable[[], Awaitable[T]]) -> T:
        """Retry through elections and a JetStream that is still starting."""
        until_s = time.monotonic() + self._tuning.timeout_s
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


async def prepare(settings: BusSettings, action: Action, models: Sequence[str] = ()) -> str:
    """Connect as the user `setup`, do it, and say what was done.

    models: those whose queues get their consumers. Raises BusUnprepared if `check` finds
    differences or a stream cannot be changed in place, BusUnavailable, BusRefused.
    """
    link = await Link.connect(settings, "setup")
    try:
        setup = Setup(link)
        if action != "check":
            done = await (setup.create() if action == "create" else setup.migrate())
            done += await setup.create_consumers(models)
            return f"{action}d: {', '.join(done)}" if done else "nothing to do"
        if findings := await setup.inspect(models):
            raise BusUnprepared("\n".join(map(str, findings)))
        return "everything is as it should be"
    finally:
        await link.close()
