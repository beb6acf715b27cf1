import asyncio
from types import SimpleNamespace
from typing import Any, Literal

import msgspec
import pytest

from gateway.admission.peers import GatewayUse, Peers
from gateway.errors import ModelLoading, Unavailable
from gateway.requests.catalogue import Catalogue, CatalogueTuning
from gateway.requests.context import GatewayContext
from gateway.requests.snapshot import ReplicaSnapshot, presets_of, voice_of
from tests.unit.ttscommon.cluster.scene import answer
from ttscommon.bus import Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import UnknownModel, UnknownVoice
from ttscommon.wire.replicas import Model, Replica, Voice

VOICES = (Voice("slt", "Slt", "en-US"), Voice("awb", "Awb", "en-GB"))


def replica(stage: Literal["talker", "vocoder"], *names: str, **fields: Any) -> Replica:
    models = tuple(Model(name, name, 16_000, 25.0, VOICES) for name in names)
    about = {"worker_id": f"{stage}-1", "slots": 8, "free": 8, **fields}
    return Replica(stage=stage, models=models, **about)


async def reported(bus: Bus, found: Replica) -> str:
    """The key of its report."""
    key = f"{found.stage}.{found.worker_id}"
    await bus.kv.put(subjects.REPLICAS, key, found.encode())
    return key


def test_default_is_the_preferred_model_if_it_lives_and_an_unknown_one_is_told_the_known() -> None:
    snapshot = ReplicaSnapshot((replica("talker", "a", "vesper"),))
    assert snapshot.model("default", "vesper").name == "vesper"
    assert snapshot.model("default", "gone").name == "a"
    with pytest.raises(UnknownModel, match="try a, vesper"):
        snapshot.model("nobody", "vesper")


def test_a_draining_replica_takes_nothing_new() -> None:
    snapshot = ReplicaSnapshot((replica("talker", "a", draining=True),))
    with pytest.raises(Unavailable):
        snapshot.model("a", "a")
    assert snapshot.live("talker", "a") == ()


def test_a_voice_is_found_by_id_or_is_the_first() -> None:
    model = replica("talker", "a").models[0]
    assert voice_of(model, "awb").id == "awb"
    assert voice_of(model, "default").id == "slt"
    with pytest.raises(UnknownVoice, match="slt, awb"):
        voice_of(model, "hal")


def test_a_voice_of_another_model_is_told_with_its_model() -> None:
    low = Model("nocturn", "vesper", 24_000, 20.0, (Voice("nocturn", "Nocturn", "en-US"),))
    here = replica("talker", "a")
    snapshot = ReplicaSnapshot((here, msgspec.structs.replace(here, models=(low,))))
    with pytest.raises(UnknownVoice, match="try slt, awb, or ask for the model 'nocturn'"):
        snapshot.voice(here.models[0], "nocturn")
    with pytest.raises(UnknownVoice, match=r"try slt, awb$"):
        snapshot.voice(here.models[0], "hal")


def test_a_blend_is_a_voice_of_models_that_mix_them() -> None:
    plain = replica("talker", "a").models[0]
    mixing = msgspec.structs.replace(plain, blends=True)
    blend = voice_of(mixing, "awb*0.5+slt*0.5")
    assert (blend.id, blend.language) == ("awb*0.5+slt*0.5", "en-GB")
    assert presets_of(mixing, blend) == ("awb", "slt")
    assert presets_of(mixing, voice_of(mixing, "slt")) == ("slt",)
    with pytest.raises(UnknownVoice, match="slt, awb"):
        voice_of(mixing, "awb+hal")
    with pytest.raises(UnknownVoice):
        voice_of(plain, "awb*0.5+slt*0.5")


async def test_a_key_for_one_voice_is_for_no_blend_with_another() -> None:
    mixing = msgspec.structs.replace(replica("talker", "a").models[0], blends=True)
    permitted: list[str | None] = []

    async def resolve(model: str, voice: str, naming: Any) -> Any:
        return mixing, voice_of(mixing, voice)

    def permit(tenant: str, model: str, voice: str | None) -> None:
        permitted.append(voice)
        if voice == "slt":
            raise UnknownVoice("not with this key")

    catalogue, keys = SimpleNamespace(resolve=resolve), SimpleNamespace(permit=permit)
    context = SimpleNamespace(catalogue=catalogue, keys=keys)
    with pytest.raises(UnknownVoice, match="not with this key"):
        await GatewayContext.spec(context, "t", voice="awb+slt")  # type: ignore[arg-type]
    assert permitted == ["awb", "slt"]


def test_a_model_that_clones_takes_other_names_for_voices_that_clients_made() -> None:
    for voices in (VOICES, ()):
        model = Model("a", "a", 24_000, 12.5, voices, accepts=("ref_audio",))
        assert voice_of(model, "mine").id == "mine"
        assert voice_of(model, "awb") == (VOICES[1] if voices else Voice("awb", "awb", "mul"))
        assert voice_of(model, "default").id == ("slt" if voices else "")
    design = Model("design", "f", 24_000, 12.5, accepts=("instructions",))
    assert voice_of(design, "alloy").id == ""


def test_retired_names_mean_their_heirs_unless_somebody_still_serves_them() -> None:
    heirs = (Voice("vesper", "Vesper", "en-US"), Voice("vesper-low", "Vesper Low", "en-US"))
    model = Model("vesper", "vesper", 24_000, 20.0, heirs)
    assert [voice_of(model, name).id for name in ("slt", "rms")] == ["vesper", "vesper-low"]
    with pytest.raises(UnknownVoice):
        voice_of(model, "awb")
    assert voice_of(replica("talker", "a").models[0], "slt").id == "slt"
    assert ReplicaSnapshot((replica("talker", "vesper"),)).model("cantor", "b").name == "vesper"
    assert ReplicaSnapshot((replica("talker", "cantor"),)).model("cantor", "b").name == "cantor"


async def test_who_asks_hears_of_a_worker_that_reported_just_now(bus: Bus) -> None:
    catalogue = Catalogue(bus, "a")
    assert await catalogue.models() == {}
    await reported(bus, replica("talker", "b", "a"))
    assert list(await catalogue.models()) == ["a", "b"]
    assert (await catalogue.model("a")).voices == VOICES
    await reported(bus, replica("vocoder", "a", "c"))
    model, voice = await catalogue.resolve("a", "awb")
    assert (model.name, voice.id) == ("a", "awb")


async def test_an_adopted_stream_is_no_other_gateways_any_more(bus: Bus) -> None:
    catalogue = Catalogue(bus, "a")
    await reported(bus, replica("talker", "a", free=5))
    await catalogue.refresh()
    assert catalogue.capacity("a").busy == 3
    for _ in range(4):
        catalogue.own["a"] += 1
        catalogue.adopt("a")
    assert catalogue.capacity("a").busy == 4


@pytest.mark.parametrize("asked", ["default", "vesper"])
def test_a_model_that_is_being_loaded_is_not_unknown_but_comes_soon(asked: str) -> None:
    loading = ReplicaSnapshot((replica("talker", loading="vesper"), replica("vocoder", "vesper")))
    with pytest.raises(ModelLoading, match="loading 'vesper'"):
        loading.model(asked, "vesper")
    other = ReplicaSnapshot((replica("talker", "other"), replica("talker", loading="vesper")))
    with pytest.raises(ModelLoading):
        other.model(asked, "vesper")
    served = ReplicaSnapshot((replica("talker", "vesper"), replica("talker", loading="vesper")))
    assert served.model(asked, "vesper").name == "vesper"


async def test_a_worker_that_was_found_dead_has_no_slots_until_it_reports_again(bus: Bus) -> None:
    catalogue = Catalogue(bus, "a")
    dead, living = replica("talker", "a"), replica("talker", "a", worker_id="talker-2")
    for one in (dead, living):
        await reported(bus, one)
    running = asyncio.create_task(catalogue.run())

    async def until(names: list[str]) -> None:
        async with asyncio.timeout(10):
            while [r.worker_id for r in catalogue.snapshot.live("talker", "a")] != names:
                await asyncio.sleep(0.01)

    try:
        await until(["talker-1", "talker-2"])
        await bus.link.send_raw(subjects.gone("talker-1"), b"talker-1")
        await until(["talker-2"])
        assert list(catalogue.died_s) == ["a"]
        await catalogue.refresh()  # which finds the report from before
        await until(["talker-2"])
        await reported(bus, dead)
        await until(["talker-1", "talker-2"])
        catalogue.mark_dead("talker-2")
        catalogue.mark_dead("talker-1")
        await until(["talker-1"])  # the last one stays: its successor will take what is queued
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_worker_that_answers_no_ping_is_known_before_it_is_found_dead(bus: Bus) -> None:
    catalogue = Catalogue(bus, "a", CatalogueTuning(ping_s=0.05))
    known = (("living", "a"), ("hung", "a"), ("killed", "a"), ("stuck", "a"), ("other", "b"))
    for name, model in known:
        await reported(bus, replica("talker", model, worker_id=name, draining=name == "hung"))
    await answer(bus, subjects.ping("living"), lambda: b"0.125")
    await answer(bus, subjects.ping("stuck"), lambda: b"2.500")  # in a step of its engine
    await answer(bus, subjects.ping("hung"), lambda: None)
    await catalogue.refresh()
    assert not await catalogue.all_answer("a")
    catalogue.mark_dead("hung")
    assert not await catalogue.all_answer("a")
    catalogue.mark_dead("killed")
    assert not await catalogue.all_answer("a")
    catalogue.mark_dead("stuck")
    assert await catalogue.all_answer("a")


async def test_of_two_that_die_one_after_the_other_the_last_stays_for_its_successor(
    bus: Bus,
) -> None:
    """Else requests were refused as soon as the report of the first had expired."""
    catalogue = Catalogue(bus, "a")
    await reported(bus, replica("talker", "a"))
    await catalogue.refresh()
    catalogue.mark_dead("talker-1")
    await reported(bus, replica("talker", "a", worker_id="talker-2"))
    await catalogue.refresh()
    catalogue.mark_dead("talker-2")
    assert "talker-2" in [one.worker_id for one in catalogue.snapshot.live("talker", "a")]


async def test_a_worker_that_was_found_dead_is_back_when_a_wiped_store_has_its_report(
    bus: Bus,
) -> None:
    catalogue = Catalogue(bus, "a")

    async def report() -> None:
        for name in ("talker-1", "talker-2"):
            await reported(bus, replica("talker", "a", worker_id=name))
        await catalogue.refresh()

    await report()
    await report()
    catalogue.mark_dead("talker-1")  # as its connection was lost with the broker
    await bus.link.jetstream.delete_stream(f"KV_{bus.link.name(subjects.REPLICAS)}")
    bus.link.store.lost_queue("jobs")
    await bus.setup.create()
    await report()
    assert len(catalogue.snapshot.live("talker", "a")) == 2


async def test_streams_of_other_gateways_count_at_once_and_once(bus: Bus) -> None:
    peers = Peers()
    catalogue = Catalogue(bus, "a", peers=peers)
    catalogue.own["a"] = 1
    await reported(bus, replica("talker", "a", free=3))
    peers.hear(GatewayUse("other", {"a": 2}), 0.0)
    for _ in range(3):
        await catalogue.refresh()
    # Workers report five: one of ours, two of the other gateway, two without a listener.
    assert catalogue.capacity("a").busy == 5
    peers.hear(GatewayUse("other", {"a": 4}), 0.1)
    assert catalogue.capacity("a").busy == 7


async def test_a_broker_that_knows_less_than_others_ends_no_worker(bus: Bus) -> None:
    """One that was stopped for longer than reports live has none until it has caught up."""
    catalogue = Catalogue(bus, "a", CatalogueTuning(missing_s=0.3))
    keys = [await reported(bus, replica(stage, "a")) for stage in ("talker", "vocoder")]
    await catalogue.refresh()
    for key in keys:
        await bus.kv.purge(subjects.REPLICAS, key)
    await catalogue.refresh()
    await catalogue.resolve("a", "awb")
    await asyncio.sleep(0.3)  # no other broker has heard of them since either
    await catalogue.refresh()
    with pytest.raises(Unavailable):
        await catalogue.resolve("a", "awb")


async def test_a_request_is_held_while_a_worker_comes(bus: Bus) -> None:
    catalogue = Catalogue(bus, "a", CatalogueTuning(again_s=0.01, poll_s=0.02, hold_s=30))
    asking = asyncio.create_task(catalogue.resolve("a", "awb"))
    for found in (replica("talker", "a"), replica("vocoder", "a")):
        done, _ = await asyncio.wait((asking,), timeout=0.2)
        assert not done
        await reported(bus, found)
    model, _ = await asyncio.wait_for(asking, 20)
    assert model.name == "a"


async def test_a_request_is_held_for_a_set_time_only(bus: Bus) -> None:
    catalogue = Catalogue(bus, "a", CatalogueTuning(again_s=0.01, poll_s=0.02, hold_s=0.3))
    with pytest.raises(Unavailable):
        await asyncio.wait_for(catalogue.resolve("a", "awb"), 20)


async def test_a_model_whose_last_talker_is_gone_is_waited_for_though_others_are_served(
    bus: Bus,
) -> None:
    catalogue = Catalogue(bus, "b", CatalogueTuning(again_s=0.01, poll_s=0.02, hold_s=30))
    talker = replica("talker", "a", worker_id="its-only-talker")
    for found in (replica("talker", "b"), replica("vocoder", "a", "b")):
        await reported(bus, found)
    key = await reported(bus, talker)
    await catalogue.resolve("a", "awb")
    await bus.kv.delete(subjects.REPLICAS, key)
    await catalogue.refresh()
    asking = asyncio.create_task(catalogue.resolve("a", "awb"))
    done, _ = await asyncio.wait((asking,), timeout=0.2)
    assert not done
    await reported(bus, talker)
    model, _ = await asyncio.wait_for(asking, 20)
    assert model.name == "a"
    with pytest.raises(UnknownModel):
        await catalogue.resolve("c", "awb")
