"""A talker that serves on a device: nothing is recorded behind a listener, one runner is held."""

import gc
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from torch import Tensor

from talker import loading
from talker.engine.engine import Engine
from talker.engine.scheduler import StepLimits
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from tests.late import Late
from tests.turning import launches
from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from tests.unit.ttsfamilies.test_conformance import Bench, same
from ttscommon.engine.device.device import Device, HostDevice, Recorded
from ttscommon.engine.device.launches import Launches
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.runners.launches import Shape
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.base.talker.streams import Row
from ttsfamilies.qwen3_tts.family import Qwen3Tts

TEXTS = ("One small step.", "And another one, for good measure!", "Then a third.", "The end.")


class Counting(Late):
    """Counts its recordings."""

    def __init__(self) -> None:
        super().__init__()
        self.recordings = 0

    def _record(self, work: Callable[[], Tensor]) -> Recorded:
        self.recordings += 1
        return super()._record(work)


def on(device: Device | None) -> Qwen3Tts:
    family = tiny()
    family.compute_on(device)
    return family


def asked(kind: int, key: str) -> SpeechRequest:
    most = Sampling(max_new_tokens=8 + 10 * kind)
    return SpeechRequest(key, "m", "slt", TEXTS[kind], seed=kind, sampling=most)


@cache
def expected(kind: int) -> Arrays:
    """What the CPU says to a request of this kind."""
    engine = Engine(on(None), blocks=200, slots=1, metrics=Metrics())
    return synthesise(engine, [asked(kind, "r")])[0].arrays


def engine_of(family: Qwen3Tts, **limits: int) -> Engine:
    limit = StepLimits(**{"streams": 4, "positions": 64, **limits})
    return Engine(family, blocks=200, slots=4, depth=1, limits=limit, metrics=Metrics())


@pytest.mark.parametrize("turns", [100, pytest.param(5_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("blocks", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_turns_record_nothing_and_say_what_the_cpu_says(blocks: int, turns: int) -> None:
    """Streams come and give way at random, half of them in a cache that does not hold all."""
    device, draw, kinds = Counting(), random.Random(blocks), dict[str, int]()
    bench = Bench(on(device), 1, blocks=blocks, slots=4, limits=StepLimits(4, 64))
    recorded = device.recordings
    for turn in range(turns):
        speaking = sum(heard.end is None for heard in bench.heard.values())
        if speaking < bench.engine.capacity and draw.random() < 0.3:
            kinds[f"r{turn}"] = draw.randrange(len(TEXTS))
            bench.open(asked(kinds[f"r{turn}"], f"r{turn}"))
        for stream in bench.engine._slots:
            if draw.random() < 0.01:
                stream.evict()
        if speaking:
            bench.engine.step()
    bench.run()
    for key, kind in kinds.items():
        same(bench.heard[key].arrays, expected(kind))
    assert len(kinds) > turns // 20
    assert device.recordings == recorded > 0
    assert launches(bench.engine.metrics, "talker", "eager") == 0
    assert launches(bench.engine.metrics, "talker", "graph") > turns


def test_a_turn_makes_its_frames_once_whatever_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    family, made, prompts = on(HostDevice()), list[int](), list[int]()
    frames, hidden = Qwen3Tts.make_frames, Qwen3Tts.prompt_hidden

    def made_frames(self: Qwen3Tts, slots: Tensor, *parts: Any) -> Any:
        made.append(len(slots))
        return frames(self, slots, *parts)

    def prompt_hidden(self: Qwen3Tts, *parts: Any) -> Any:
        prompts.append(1)
        return hidden(self, *parts)

    monkeypatch.setattr(Qwen3Tts, "make_frames", made_frames)
    monkeypatch.setattr(Qwen3Tts, "prompt_hidden", prompt_hidden)
    engine, mixed = engine_of(family), 0
    for number in range(3):
        request = asked(3, f"r{number}")
        prepared = family.prepare(request)
        units = list(prepared.read([Text(request.text)], final=True))
        engine.open(prepared, None, units, final=True)
        for _ in range(3):
            made.clear()
            prompts.clear()
            engine.step()
            assert len(made) == 1
            mixed += bool(prompts) and number > 0
    assert mixed >= 2, "prompts beside steps of others"


def test_what_is_beyond_the_lattice_is_not_recorded_either() -> None:
    device = Counting()
    engine = engine_of(on(device), positions=4096)
    recorded = device.recordings
    text = "A very long instruction that takes no end at all. " * 40
    request = SpeechRequest("r", "m", "slt", TEXTS[0], seed=0, instructions=text)
    whole = SpeechRequest("s", "m", "slt", text, seed=0, sampling=Sampling(max_new_tokens=3))
    synthesise(engine, [request, whole])
    assert device.recordings == recorded


def test_the_lattice_is_small_at_256_slots() -> None:
    device = Counting()
    runner = on(device).runner(512, 32, 1)
    runner.record(256, 512)
    assert device.recordings <= 42


def test_rows_and_reaches_are_padded_to_few_sizes_and_none_beyond_a_step_s_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded: list[Shape] = []

    def noted(_: Launches[Shape], shape: Shape) -> None:
        recorded.append(shape)

    monkeypatch.setattr(Launches, "recorded", noted)
    runner = on(Late()).runner(300, 600, 1)
    assert isinstance(runner, DeviceRunner)
    runner.decodes.record(200, 512)
    most = 600 * BLOCK_POSITIONS
    short, reaches = (512, most), (512, 1024, 2048, 4096, most)
    sizes = (200, 192, 160, 128, 96, 64, 32, 16, 8, 4, 2, 1)
    wanted = [Shape(n, n, reach) for n in sizes for reach in (reaches if n <= 64 else short)]
    assert recorded == wanted


def test_a_slot_is_told_only_what_changed() -> None:
    stream = on(None).open(on(None).prepare(asked(0, "r")))
    told: list[str] = []

    def write(name: str, value: Any, at: int = 0) -> None:
        told.append(name)

    units = list(on(None).prepare(asked(0, "r")).read([Text(TEXTS[0])], final=False))
    stream.feed(units, final=False)
    stream.stage(write)
    assert {"seed", "known", "complete"} <= set(told)
    told.clear()
    stream.stage(write)
    assert told == []
    stream.feed([], final=True)
    stream.stage(write)
    assert "complete" in told
    assert "seed" not in told
    stream.rewind(stream.frames)
    told.clear()
    stream.stage(write)
    assert {"seed", "known", "complete"} <= set(told)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """References to all runners that are made."""
    found: list[weakref.ref[Any]] = []
    real = DeviceRunner.__init__

    def init(self: DeviceRunner, *parts: Any, **named: Any) -> None:
        real(self, *parts, **named)
        found.append(weakref.ref(self))

    monkeypatch.setattr(DeviceRunner, "__init__", init)
    return found


def test_a_start_leaves_one_runner_which_recorded_before_it_spoke(
    made: list[weakref.ref[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, before = Counting(), list[int]()
    monkeypatch.setattr(loading, "read_family", lambda settings, startup: on(device))
    launch = DeviceRunner.launch

    def launched(self: DeviceRunner, rows: Sequence[Row]) -> Any:
        before.append(device.recordings)
        return launch(self, rows)

    monkeypatch.setattr(DeviceRunner, "launch", launched)
    settings = TalkerSettings(model="m", slots=4, batch_streams=4, kv_blocks=200)
    engine = loading.build_engine(settings, Metrics())
    assert [runner() for runner in made] == [engine._runner]
    assert set(before) == {device.recordings}, "warm-up speaks when all is recorded"


def test_a_runner_goes_with_its_engine(made: list[weakref.ref[Any]]) -> None:
    engine = engine_of(on(Late()))
    synthesise(engine, [asked(0, "r")])
    del engine
    gc.collect()
    assert [runner() for runner in made] == [None]


class Beside(HostDevice):
    """Knows whether what is computed would wait for steps."""

    inside = False

    @contextmanager
    def aside(self) -> Iterator[object]:
        self.inside = True
        yield self
        self.inside = False


@pytest.mark.parametrize("what", ["derive", "hear"])
def test_recordings_are_read_beside_the_steps(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the default stream, they were of no order with what had been sent before."""
    device, found = Beside(), list[bool]()

    def derive(self: Qwen3Tts, recording: bytes) -> Arrays:
        found.append(device.inside)
        return {}

    monkeypatch.setattr(Qwen3Tts, "derive", derive)
    family = tiny()
    served = ServedFamily(family)
    getattr(served, what)(b"")
    family.compute_on(device)
    getattr(served, what)(b"")
    assert found == [False, True]
