"""The order of an upgrade: a stage's new workers wait until the stage behind them is new.

See docs/decisions/deployment.md.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal

import structlog

from ttscommon.bus.bus import Bus
from ttscommon.process.settings import BusSettings
from ttscommon.process.version import VERSION
from ttscommon.wire import subjects
from ttscommon.wire.errors import AntiphonError, BusUnavailable, MalformedMessage
from ttscommon.wire.replicas import Replica

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
        entries = await bus.kv.entries(subjects.REPLICAS)
    finally:
        await bus.close()
    newest = {entry.key: entry.value for entry in entries}
    found = [_parsed(value) for value in newest.values() if value is not None]
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


__all__ = ["FOLLOWS", "Follower", "follow"]
