"""Adapters come when a request needs them and go by last use; nobody's step waits for it."""

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from talker.adapters import AdapterLibrary, Adapters, AdapterTiming, with_adapters
from tests.adapters import files, write
from tests.waits import TIMEOUT_S
from ttscommon.cluster.adapters.peft import WEIGHTS, Files, Lora
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BusUnavailable, InvalidAdapter, Overloaded, UnknownAdapter
from ttscommon.wire.parameters import AdapterRef
from ttsfamilies.fake.talker import FakeModel, StepCurve

SIZES = {"q_proj": (6, 4)}
KEY = "0" * 16 + "-" + "0" * 64 + "-" + "0" * 16


@dataclass(frozen=True)
class Ready:
    digest: str
    size: int = 400_000


@dataclass
class Model:
    """Places that remember. gate: loads wait for it."""

    slots: int = 2
    most_rank: int = 16
    reserved_bytes: int = 0
    places: dict[int, str] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)
    modules: dict[str, tuple[int, int]] = field(default_factory=lambda: dict(SIZES))
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def fitted(self, lora: Lora) -> Ready:
        if "other" in lora.pairs:
            raise InvalidAdapter("of another model")
        return Ready(lora.digest)

    def put(self, slot: int, fitted: Any) -> None:
        assert self.gate.wait(10)
        assert slot not in self.places
        self.places[slot] = fitted.digest
        self.loads.append(fitted.digest)

    def drop(self, slot: int) -> None:
        self.places.pop(slot, None)

    def row_id(self, digest: str) -> int:
        return next(slot for slot, known in self.places.items() if known == digest) + 1


@dataclass
class Store:
    """The object store, as far as it is asked. away: how often it does not answer."""

    kept: dict[str, bytes] = field(default_factory=dict)
    away: int = 0
    objects: Any = None

    def __post_init__(self) -> None:
        self.objects = self

    async def get(self, bucket: str, name: str) -> bytes | None:
        assert bucket == "recordings"
        await asyncio.sleep(0)
        if self.away:
            self.away -= 1
            raise BusUnavailable("away")
        return self.kept.get(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(4):
        write(tmp_path / f"a{number}", drawn(number))
    return tmp_path


def drawn(number: int) -> Files:
    return files(SIZES, 2, seed=number)


def ref(number: int, stored: str = "") -> AdapterRef:
    return AdapterRef(f"a{number}", drawn(number).digest, stored)


def talkers(folder: Path | None, model: Model, store: Store | None = None, **more: Any) -> Adapters:
    library = AdapterLibrary.of(folder, model, 1 << 20)
    timing = AdapterTiming(**{"wait_s": 0.05, "broker_s": 5.0, **more})
    return Adapters(store or Store(), model, library, 1_000_000, Metrics(), timing)  # type: ignore[arg-type]


async def test_one_is_loaded_once_for_all_who_come_meanwhile(folder: Path) -> None:
    model = Model()
    adapters = talkers(folder, model)
    model.gate.clear()
    waiting = [asyncio.create_task(adapters.acquire(ref(0))) for _ in range(5)]
    for _ in range(20):
        await asyncio.sleep(0.005)  # others go on meanwhile
    assert not any(task.done() for task in waiting)
    model.gate.set()
    for release in await asyncio.gather(*waiting):
        release()
    assert model.loads == [drawn(0).digest]
    (await adapters.acquire(ref(0)))()
    assert model.loads == [drawn(0).digest]


async def test_the_one_that_was_used_longest_ago_makes_room(folder: Path) -> None:
    model = Model()
    adapters = talkers(folder, model)
    for number in (0, 1, 0, 2):
        (await adapters.acquire(ref(number)))()
    assert set(model.places.values()) == {drawn(0).digest, drawn(2).digest}
    (await adapters.acquire(ref(0)))()
    assert len(model.loads) == 3


@pytest.mark.parametrize("slots", [2, 4])
async def test_no_more_are_held_than_places_or_bytes_and_one_in_use_stays(
    folder: Path, slots: int
) -> None:
    model = Model(slots=slots)
    adapters = talkers(folder, model)  # a million bytes, 400,000 each
    for number in range(4):
        (await adapters.acquire(ref(number)))()
        assert len(model.places) <= 2
    releases = [await adapters.acquire(ref(number)) for number in (0, 1)]
    with pytest.raises(Overloaded):
        await adapters.acquire(ref(2))
    assert set(model.places.values()) == {drawn(0).digest, drawn(1).digest}
    for release in releases:
        release()
    (await adapters.acquire(ref(2)))()


async def test_who_finds_no_place_waits_for_one(folder: Path) -> None:
    adapters = talkers(folder, Model(), wait_s=10.0)
    _, release = [await adapters.acquire(ref(number)) for number in (0, 1)]
    waiting = asyncio.create_task(adapters.acquire(ref(2)))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    release()
    (await asyncio.wait_for(waiting, TIMEOUT_S))()


async def test_an_upload_is_read_from_the_store_though_the_broker_was_away() -> None:
    store = Store({KEY: drawn(7).packed()}, away=2)
    model = Model()
    (await talkers(None, model, store).acquire(ref(7, KEY)))()
    assert model.loads == [drawn(7).digest]


async def test_what_is_gone_or_other_than_it_was_is_named_and_leaves_its_place(
    folder: Path,
) -> None:
    store = Store({KEY: drawn(8).packed()})
    model = Model(slots=1)
    adapters = talkers(folder, model, store)
    with pytest.raises(UnknownAdapter, match="deleted"):
        await adapters.acquire(ref(7, KEY.replace("0-", "1-")))
    with pytest.raises(UnknownAdapter, match="folder"):
        await adapters.acquire(ref(7))
    with pytest.raises(InvalidAdapter, match="damaged"):
        await adapters.acquire(ref(7, KEY))
    (folder / "a1" / WEIGHTS).write_bytes(drawn(9).weights)
    with pytest.raises(InvalidAdapter, match="changed"):
        await adapters.acquire(ref(1))
    (await adapters.acquire(ref(0)))()
    assert model.places == {0: drawn(0).digest}


async def test_a_request_that_is_cancelled_while_it_waits_holds_nothing(folder: Path) -> None:
    model = Model(slots=1)
    adapters = talkers(folder, model)
    model.gate.clear()
    waiting = asyncio.create_task(adapters.acquire(ref(0)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    model.gate.set()
    while not model.loads:
        await asyncio.sleep(0.005)
    (await adapters.acquire(ref(1)))()


def test_a_folder_lists_what_fits_and_names_what_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "good", drawn(1))
    write(tmp_path / "bad name", drawn(2))
    write(tmp_path / "foreign", files({"other": (2, 2)}, 2))
    write(tmp_path / "broken", Files.of(b"{", b""))
    (tmp_path / "no_adapter").mkdir()
    (tmp_path / "file").write_text("x")
    (listed,) = AdapterLibrary.of(tmp_path, Model(), 1 << 20).listed
    assert (listed.name, listed.digest, listed.rank) == ("good", drawn(1).digest, 2)
    with pytest.raises(CheckpointError):
        AdapterLibrary.of(tmp_path / "missing", Model(), 1 << 20)


def test_a_voice_may_be_bound_to_an_adapter(folder: Path) -> None:
    spec = FakeModel("m", StepCurve(0.0, 0.0, 0.0)).spec
    library = AdapterLibrary.of(folder, Model(), 1 << 20)
    voice = spec.voices[0].id
    bound = with_adapters(spec, library, [f"{voice}=a1"])
    assert bound.voices[0].adapter == "a1"
    assert structs.replace(bound.voices[0], adapter="") == spec.voices[0]
    assert [one.name for one in bound.listed("m").adapters] == ["a0", "a1", "a2", "a3"]
    for wrong in ("nobody=a1", f"{voice}=a9", voice):
        with pytest.raises(CheckpointError):
            with_adapters(spec, library, [wrong])
