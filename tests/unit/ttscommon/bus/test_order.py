"""An upgrade's order: who waits for whom, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

from ttscommon.bus import Bus
from ttscommon.bus.order import follow
from ttscommon.bus.permissions import Role, permissions
from ttscommon.process.version import VERSION
from ttscommon.wire import subjects
from ttscommon.wire.replicas import Replica


async def report(bus: Bus, name: str, stage: Any = "vocoder", **fields: Any) -> None:
    replica = Replica(name, stage, (), slots=4, free=4, **fields)
    await bus.kv.put(subjects.REPLICAS, f"{stage}.{name}", replica.encode())


async def test_a_new_talker_waits_until_the_last_old_vocoder_is_gone(broker: Any, bus: Bus) -> None:
    await report(bus, "new", version=VERSION)
    await report(bus, "old")
    waiting = asyncio.create_task(follow(broker.bus, "talker", 30, look_s=0.05))
    done, _ = await asyncio.wait((waiting,), timeout=0.5)
    assert not done
    await report(bus, "old", draining=True)
    assert "no vocoder has another version" in await asyncio.wait_for(waiting, 10)


async def test_stages_in_front_and_first_installations_are_not_waited_for(
    broker: Any, bus: Bus
) -> None:
    await report(bus, "old-talker", "talker")
    assert "no vocoder" in await follow(broker.bus, "talker", 10)


async def test_an_upgrade_that_is_stuck_holds_a_stage_up_for_a_set_time(
    broker: Any, bus: Bus
) -> None:
    await report(bus, "old", "talker")
    assert "going on after 0.3 s" in await follow(broker.bus, "gateway", 0.3, look_s=0.05)


async def test_the_rights_of_each_follower_are_enough(broker: Any, bus: Bus) -> None:
    followers: tuple[Role, ...] = ("talker", "gateway")
    for role in followers:
        rights = permissions(role, "antiphon", ["vesper"]).publish
        assert any("DIRECT.GET" in right and "KV_antiphon-replicas" in right for right in rights)
