"""Checks before a start: the kind of the broker's store, and the order of an upgrade."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Literal

import structlog

from ttscommon.bus.bus import Bus
from ttscommon.process.settings import BusSettings
from ttscommon.process.startup import VERSION
from ttscommon.wire import subjects
from ttscommon.wire.errors import AntiphonError, BusUnavailable, MalformedMessage
from ttscommon.wire.replicas import Replica

# What the members of a cluster agree on, in the folder of the system account.
_META: Final = "jetstream/*/_js_/_meta_"
_STREAMS: Final = "jetstream/*/streams/*"
_ADVICE: Final = "see docs/operations.md, 'From one broker to three'"


class ForeignStore(AntiphonError, code="bus_unavailable"):
    """The store is of another kind than the broker; the text says what would happen."""


def check_store(folder: Path, brokers: int) -> str:
    """What a broker that is one of `brokers` finds in its `store_dir`; raises ForeignStore."""
    member = any(folder.glob(_META))
    streams = sum(1 for _ in folder.glob(_STREAMS))
    if brokers > 1 and streams and not member:
        raise ForeignStore(
            f"{folder} is the store of a single broker, with {streams} streams: a cluster of "
            f"{brokers} would delete them; {_ADVICE}"
        )
    if brokers == 1 and member:
        raise ForeignStore(
            f"{folder} is the store of a cluster's member: a broker alone may lack records that "
            f"the others have, and cannot return to them; {_ADVICE}"
        )
    return f"{streams} streams, as {'a member' if member else 'a single broker'} left them"


# Who follows whom.
FOLLOWS: Final[dict[str, str]] = {"talker": "vocoder", "gateway": "talker"}
Follower = Literal["talker", "gateway"]
_LOOK_S: Final = 1.0

log_ = structlog.get_logger(__name__)


async def follow(
    settings: BusSettings, role: Follower, timeout_s: float, look_s: float = _LOOK_S
) -> str:
    """Wait until no worker of the stage behind `role` has another version; says how it ended.

    Never longer than `timeout_s`: an upgrade that is stuck elsewhere must not keep a stage down.
    """
    stage = FOLLOWS[role]
    try:
        async with asyncio.timeout(timeout_s) as limit:
            await _until_new(settings, role, stage, look_s, limit)
    except TimeoutError:
        return f"going on after {timeout_s:g} s: not every {stage} runs {VERSION}"
    return f"no {stage} has another version than {VERSION}"


async def _until_new(
    settings: BusSettings, role: Follower, stage: str, look_s: float, limit: asyncio.Timeout
) -> None:
    """Raises TimeoutError where a connection that was just being made or closed ate the limit's
    cancellation, as Python 3.11's `wait_for` may.
    """
    while not limit.expired():
        try:
            others = await _others(settings, role, stage)
        except AntiphonError as error:  # the broker, or this user's rights, come first
            log_.info("order.waiting", error=error.message)
        else:
            if not others:
                return
            log_.info("order.waiting", stage=stage, workers=others)
        await asyncio.sleep(look_s)
    raise TimeoutError


async def _others(settings: BusSettings, role: Follower, stage: str) -> list[str]:
    """The workers of `stage` that have another version and mean to stay. Raises BusUnavailable."""
    bus = await Bus.connect(settings, role)
    try:
        reports = await bus.kv.all(subjects.REPLICAS)
    finally:
        await bus.close()
    found = [_parsed(value) for value in reports.values()]
    return sorted(
        one.worker_id
        for one in found
        if one.stage == stage and one.version != VERSION and not one.draining
    )


def _parsed(value: bytes) -> Replica:
    try:
        return Replica.decode(value)
    except MalformedMessage as error:
        raise BusUnavailable(f"a report that cannot be read: {error.message}") from error
