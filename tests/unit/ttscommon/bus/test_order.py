"""An upgrade's order: who waits for whom, and for how long."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from nats.errors import Error as NatsError

from antiphon.stack import LocalStack, StackConfig
from tests.waits import until
from ttscommon.bus import Bus, BusUnprepared
from ttscommon.bus.__main__ import main
from ttscommon.bus.order import ForeignStore, check_store, follow
from ttscommon.bus.setup import Setup, SetupTuning
from ttscommon.process.startup import VERSION
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


async def test_stages_in_front_and_first_starts_are_not_waited_for(broker: Any, bus: Bus) -> None:
    await report(bus, "old-talker", "talker")
    assert "no vocoder" in await follow(broker.bus, "talker", 10)


async def test_a_stuck_upgrade_holds_a_stage_up_for_a_set_time(broker: Any, bus: Bus) -> None:
    await report(bus, "old", "talker")
    assert "going on after 0.3 s" in await follow(broker.bus, "gateway", 0.3, look_s=0.05)


def brokers(count: Literal[1, 3], store: Path) -> LocalStack:
    config = StackConfig(gateways=0, talkers=0, vocoders=0, brokers=count, store=store)
    return LocalStack(config)


async def stored(settings: Any) -> None:
    bus = await Bus.connect(settings, "setup")
    await bus.setup.create()
    await bus.kv.put(subjects.VOICES, "owner.voice", b"x" * 1000)
    await bus.close()


async def test_a_single_brokers_store_may_not_join_a_cluster(tmp_path: Path) -> None:
    async with brokers(1, tmp_path) as alone:
        await stored(alone.bus)
    store = tmp_path / "broker/jetstream"
    assert "streams, as a single broker left them" in check_store(store, 1)
    with pytest.raises(ForeignStore, match="a cluster of 3 would delete them"):
        check_store(store, 3)
    assert main(["store", str(store), "--brokers", "3"]) == 1


@pytest.mark.slow
async def test_a_members_store_may_not_start_alone(tmp_path: Path) -> None:
    async with brokers(3, tmp_path) as cluster:
        await stored(cluster.bus)
    for member in ("broker-1", "broker-2", "broker-3"):
        store = tmp_path / member / "jetstream"
        assert "as a member" in check_store(store, 3)
        with pytest.raises(ForeignStore, match="of a cluster's member"):
            check_store(store, 1)


def test_an_empty_volume_is_any_brokers(tmp_path: Path) -> None:
    for count in (1, 3):
        assert check_store(tmp_path, count).startswith("0 streams")


async def counted(bus: Bus) -> bool:
    """Whether the cluster is up, and counts what its members hold."""
    with suppress(NatsError):
        return (await bus.link.jetstream.account_info()).storage > 0
    return False


async def test_setup_refuses_a_cluster_that_would_delete_what_a_broker_holds(
    tmp_path: Path,
) -> None:
    async with brokers(1, tmp_path) as alone:
        await stored(alone.bus)
    (tmp_path / "broker").rename(tmp_path / "broker-1")
    async with brokers(3, tmp_path) as cluster:
        bus = await Bus.connect(cluster.bus, "setup")
        await until(lambda: counted(bus))
        setup = Setup(bus.link, SetupTuning(orphans_s=0.5))
        with pytest.raises(BusUnprepared, match="streams that its cluster does not know"):
            await setup.create()
        await bus.close()
