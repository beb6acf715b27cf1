"""Backups of a real broker: what is kept permanently comes back, and nothing is lost by trying."""

import asyncio
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from antiphon.stack import LocalStack, StackConfig
from tests.connections import Connect
from ttscommon.bus import Bus
from ttscommon.bus.backup import MANIFEST, BackupUnusable, back_up, restore
from ttscommon.bus.layout import kept_streams
from ttscommon.bus.lean import LeanClient
from ttscommon.wire import subjects

# They name what a deployment of the default prefix keeps.
pytestmark = pytest.mark.own_broker

RECORDING = bytes(range(256)) * 2000


@pytest.fixture
async def filled(connect: Connect) -> Bus:
    bus = await connect("gateway", prepared=False)
    await bus.setup.create()
    for number in range(20):
        await bus.kv.put(subjects.VOICES, f"owner.voice-{number}", b"{}")
    await bus.objects.put(subjects.RECORDINGS, "recording", RECORDING)
    return bus


async def kept(bus: Bus) -> tuple[int, bytes | None]:
    voices = await bus.kv.all(subjects.VOICES, "owner.")
    return len(voices), await bus.objects.get(subjects.RECORDINGS, "recording")


async def test_what_is_kept_comes_back_though_pieces_are_not_heard_the_first_time(
    filled: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "KV_antiphon-voices 20 records" in await back_up(filled.link.settings, tmp_path)
    for name in kept_streams("antiphon"):
        await filled.link.jetstream.delete_stream(name)
    request, unheard = LeanClient.request, set[str]()

    async def heard_the_second_time(
        client: LeanClient, subject: str, data: bytes, **to: Any
    ) -> Any:
        if "SNAPSHOT.RESTORE" in subject and subject not in unheard:
            unheard.add(subject)
            raise nats.errors.NoRespondersError
        return await request(client, subject, data, **to)

    monkeypatch.setattr(LeanClient, "request", heard_the_second_time)
    await restore(filled.link.settings, tmp_path)
    assert len(unheard) == len(kept_streams("antiphon"))
    assert await kept(filled) == (20, RECORDING)
    await filled.setup.verify()


async def test_what_the_broker_has_is_replaced_only_when_asked(filled: Bus, tmp_path: Path) -> None:
    await back_up(filled.link.settings, tmp_path)
    await filled.kv.put(subjects.VOICES, "owner.newer", b"{}")
    with pytest.raises(BackupUnusable, match="KV_antiphon-voices has 21 records"):
        await restore(filled.link.settings, tmp_path)
    assert await kept(filled) == (21, RECORDING)
    await restore(filled.link.settings, tmp_path, replace=True)
    assert await kept(filled) == (20, RECORDING)


async def test_a_damaged_backup_changes_nothing(filled: Bus, tmp_path: Path) -> None:
    await back_up(filled.link.settings, tmp_path)
    [damaged] = tmp_path.glob("*/OBJ_antiphon-recordings.snapshot")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    with pytest.raises(BackupUnusable, match="not what was written"):
        await restore(filled.link.settings, tmp_path, replace=True)
    assert await kept(filled) == (20, RECORDING)


async def test_only_the_newest_backups_stay(filled: Bus, tmp_path: Path) -> None:
    for day in ("2020-01-01T00-00-00Z", "2020-01-02T00-00-00Z"):
        (tmp_path / day).mkdir()
        (tmp_path / day / MANIFEST).write_text("{}")
    await back_up(filled.link.settings, tmp_path, keep=2)
    found = sorted(path.parent.name for path in tmp_path.glob(f"*/{MANIFEST}"))
    assert found[0] == "2020-01-02T00-00-00Z"
    assert len(found) == 2


async def test_a_backup_that_fails_leaves_no_folder_behind(filled: Bus, tmp_path: Path) -> None:
    await filled.link.jetstream.delete_stream("OBJ_antiphon-recordings")
    with pytest.raises(Exception, match="OBJ_antiphon-recordings: stream not found"):
        await back_up(filled.link.settings, tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "store"]


async def test_a_backup_of_another_deployment_is_refused(filled: Bus, tmp_path: Path) -> None:
    await back_up(filled.link.settings, tmp_path)
    other = filled.link.settings.model_copy(update={"prefix": "staging"})
    with pytest.raises(BackupUnusable, match="deployment 'antiphon'"):
        await asyncio.wait_for(restore(other, tmp_path), 10)


@pytest.mark.slow
async def test_a_backup_of_one_broker_is_restored_into_three(filled: Bus, tmp_path: Path) -> None:
    await back_up(filled.link.settings, tmp_path / "backups")
    config = StackConfig(gateways=0, talkers=0, vocoders=0, brokers=3, store=tmp_path / "cluster")
    async with LocalStack(config) as cluster:
        three = cluster.bus.model_copy(update={"replicas": 3})
        moved = await Bus.connect(three, "gateway")
        await moved.setup.create()
        await restore(three, tmp_path / "backups")
        assert await kept(moved) == (20, RECORDING)
        for name in kept_streams("antiphon"):
            assert (await moved.link.jetstream.stream_info(name)).config.num_replicas == 3
        await moved.setup.verify()
        await moved.close()
