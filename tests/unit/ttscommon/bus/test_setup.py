"""Preparing a real broker: created once, changed only on purpose, verified by everybody else."""

from contextlib import nullcontext
from typing import Any

import pytest
from nats.js.api import DiscardPolicy, StreamConfig

from tests.connections import Connect
from tests.waits import until
from ttscommon.bus import Bus, BusUnprepared
from ttscommon.bus.layout import RELEASE_KEY, SCHEMA, SCHEMA_KEY, Layout
from ttscommon.bus.setup import Setup, SetupTuning
from ttscommon.process.startup import VERSION
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.subjects import CODES, RETIRED_JOBS, TALKER, VOCODER

# They name what a deployment of the default prefix keeps.
pytestmark = pytest.mark.own_broker

IMPATIENT = SetupTuning(missing_s=0.0)


async def stream(bus: Bus, name: str) -> Any:
    return (await bus.link.jetstream.stream_info(bus.link.name(name))).config


async def test_a_service_refuses_a_broker_that_nobody_prepared(connect: Connect) -> None:
    bus = await connect(prepared=False)
    with pytest.raises(BusUnprepared, match="antiphon-TALK_JOBS: missing"):
        await Setup(bus.link, IMPATIENT).verify()
    with pytest.raises(Exception, match="stream not found"):
        await stream(bus, TALKER.stream)


async def test_what_is_created_once_is_changed_by_a_migration_alone(connect: Connect) -> None:
    operator = await connect(prepared=False, replicas=1, max_log_bytes=1 << 26)
    assert len(await operator.setup.create()) == len(Layout("antiphon").streams())
    assert await operator.setup.create() == []
    service = await connect(prepared=False, replicas=None, max_log_bytes=None)
    await service.setup.verify()
    later = await connect(prepared=False, max_log_bytes=1 << 27)
    assert await later.setup.create() == []
    with pytest.raises(BusUnprepared, match="max_bytes 67108864 instead of 134217728"):
        await later.setup.verify()
    assert (await stream(service, CODES.stream)).max_bytes == 1 << 26
    logs = ["antiphon-TEXT", "antiphon-CODES", "antiphon-AUDIO"]
    names = ("recordings", "recordings_passing", "book_parts")
    stores = [f"OBJ_antiphon-{name}" for name in names]
    assert await later.setup.migrate() == [*logs, *stores]
    assert await later.setup.inspect() == []
    assert (await stream(service, CODES.stream)).max_bytes == 1 << 27


async def test_streams_of_an_earlier_schema_are_refused_and_migrated(connect: Connect) -> None:
    bus = await connect(prepared=False)
    await bus.setup.create()
    config = await stream(bus, TALKER.stream)
    config.metadata, config.allow_direct = {"antiphon-schema": "1"}, False
    slots = config.max_msgs // 6
    config.max_msgs = 2 * slots  # none of them could wait aside
    await bus.link.jetstream.update_stream(config)
    sessions = (await bus.link.jetstream.stream_info("KV_antiphon-sessions")).config
    sessions.discard = DiscardPolicy.NEW  # it refused when it was full
    await bus.link.jetstream.update_stream(sessions)
    with pytest.raises(BusUnprepared, match="schema 1 instead of 5"):
        await bus.setup.verify()
    assert await bus.setup.migrate() == ["antiphon-TALK_JOBS", "KV_antiphon-sessions"]
    assert (await stream(bus, TALKER.stream)).max_msgs == 6 * slots
    await bus.setup.verify()


@pytest.mark.parametrize(
    ("release", "schema", "accepted"),
    [("1000.0", SCHEMA, True), ("1000.0", "1000", False), (VERSION, SCHEMA, False)],
)
async def test_a_service_that_restarts_works_with_what_a_newer_release_has_changed(
    connect: Connect, release: str, schema: str, accepted: bool
) -> None:
    bus = await connect(prepared=False, max_log_bytes=1 << 26)
    await bus.setup.create()
    config = await stream(bus, CODES.stream)
    config.max_msgs_per_subject = 2 * (config.max_msgs_per_subject or 0)
    config.metadata |= {RELEASE_KEY: release, SCHEMA_KEY: schema}
    await bus.link.jetstream.update_stream(config)
    refused = nullcontext() if accepted else pytest.raises(BusUnprepared, match="antiphon-CODES: ")
    with refused:
        await Setup(bus.link, IMPATIENT).verify()
    assert await bus.setup.migrate() == ["antiphon-CODES"]  # back to the release before
    await bus.setup.verify()


async def test_the_one_queue_of_schema_2_is_replaced_and_sequences_go_on(connect: Connect) -> None:
    bus = await connect(prepared=False, max_log_bytes=1 << 26)
    retired = StreamConfig(name=bus.link.name(RETIRED_JOBS), subjects=["antiphon.job.>"])
    await bus.link.jetstream.add_stream(retired)
    for name in ("a", "b"):
        await bus.link.jetstream.publish(f"antiphon.job.talk.m.{name}", b"")
    assert str((await bus.setup.inspect())[0]).startswith("antiphon-JOBS: was replaced")
    with pytest.raises(BusUnprepared, match="subjects overlap"):
        await bus.setup.create()
    await bus.setup.migrate()
    await bus.setup.verify()
    for stage in (TALKER, VOCODER):
        await bus.submit(stage, SpeechRequest("r", "m", "v", "hello"))
        job = await bus.queue.find(stage, "r")
        assert job is not None
        assert job.sequence == 3


async def test_queues_are_sized_for_the_fleets_slots(connect: Connect) -> None:
    operator = await connect(prepared=False, slots=100, max_log_bytes=1 << 26)
    await operator.setup.create()
    assert (await stream(operator, VOCODER.stream)).max_msgs == 600
    service = await connect(prepared=False, slots=None)
    await service.setup.verify()
    larger = await connect(prepared=False, slots=1000)
    assert await larger.setup.migrate() == ["antiphon-TALK_JOBS", "antiphon-VOCODE_JOBS"]
    assert (await stream(larger, TALKER.stream)).max_msgs == 6000


async def test_two_deployments_share_a_broker(connect: Connect) -> None:
    small = {"max_log_bytes": 1 << 26}
    mine, theirs = [
        await connect(prepared=False, prefix=prefix, **small) for prefix in ("mine", "theirs")
    ]
    for bus in (mine, theirs):
        await bus.setup.create()
        await bus.setup.ensure_consumer(TALKER, "m")
    await mine.submit(TALKER, SpeechRequest("r", "m", "v", "hello"))

    async def counted() -> bool:  # the consumer's count follows
        return await mine.queue.waiting(TALKER, "m") == 1

    await until(counted)
    assert await theirs.queue.waiting(TALKER, "m") == 0
    await mine.kv.put("leases", "k", b"1")
    assert await theirs.kv.get("leases", "k") is None
