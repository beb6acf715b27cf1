"""The runner of a device, on a CPU that computes as late as a device may.

All is float32 here, so ids are those of the CPU's engine except near ties, about one frame in
40,000 (docs/decisions/bit-exactness.md); seeds are fixed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from talker.engine.engine import Engine
from talker.engine.stream import ChunkReady, Event, Failed, Finished
from tests.late import Late
from tests.unit.ttsfamilies.tiny_vesper import tiny
from ttscommon.engine.device.device import Device, HostDevice
from ttscommon.engine.inflight import DeviceError
from ttscommon.engine.pace import Contention
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, concatenate
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.runners.computation import Attend, Out, Prompts, Rows, SlotTensors
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.runners.kv import DeviceCache
from ttsfamilies.vesper.family import Vesper
from ttsfamilies.vesper.frame import FrameChoice

TEXTS = (
    "One small step, said the talker.",
    "And then another one, for good measure! The end.",
    "Short.",
    "Somebody else talks at the same time, and for much longer than the rest would have thought.",
    "Five. Six. Seven.",
)


def vesper(device: Device | None = None, kind: type[Vesper] = Vesper) -> Vesper:
    family = tiny(kind)
    family.compute_on(device)
    return family


class Run:
    """An engine stepped by hand, and what each stream gave."""

    def __init__(self, family: Vesper, *, blocks: int = 160, slots: int = 8) -> None:
        self.engine = Engine(
            family,
            slots=slots,
            blocks=blocks,
            depth=family.depth,
            metrics=Metrics(),
            contention=Contention(read=lambda: None),
        )
        self.engine.listen(self._listen)
        self.chunks: dict[str, list[Arrays]] = {}
        self.ends: dict[str, Event] = {}

    def _listen(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            if isinstance(event, ChunkReady):
                self.chunks[key].append(event.arrays)
                self.engine.acknowledge(key)
            else:
                self.ends[key] = event

    def open(self, key: str, text: str, seed: int) -> None:
        self.chunks[key] = []
        request = SpeechRequest(key, "m", "slt", text, seed=seed)
        prepared = self.engine.family.prepare(request)
        units = list(prepared.read([Text(text)], final=True))
        self.engine.open(prepared, None, units, final=True)

    def until_all_end(self) -> dict[str, Arrays]:
        for _ in range(3000):
            if len(self.ends) == len(self.chunks):
                break
            self.engine.step()
        self.engine.step()
        assert self.engine.idle
        spoken = [key for key, end in self.ends.items() if isinstance(end, Finished)]
        return {key: concatenate(self.chunks[key]) for key in spoken}


def spoken(family: Vesper, *, evict_every: int = 0, **sizes: int) -> dict[str, Arrays]:
    run = Run(family, **sizes)
    for index, text in enumerate(TEXTS):
        run.open(f"r{index}", text, seed=index)
        for step in range(5):
            run.engine.step()
            if evict_every and step % evict_every == 1:
                for stream in run.engine._slots:
                    stream.evict()
    return run.until_all_end()


def same(one: Mapping[str, Arrays], other: Mapping[str, Arrays]) -> None:
    assert one.keys() == other.keys()
    for key, arrays in one.items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, other[key][name], err_msg=f"{key} {name}")


@pytest.fixture(scope="module")
def expected() -> dict[str, Arrays]:
    return spoken(vesper())


@pytest.mark.parametrize("device", [pytest.param(HostDevice, marks=pytest.mark.slow), Late])
def test_a_device_says_what_the_cpu_says(
    device: type[Device], expected: Mapping[str, Arrays]
) -> None:
    same(spoken(vesper(device())), expected)


def test_streams_that_give_way_and_come_back_say_the_same(expected: Mapping[str, Arrays]) -> None:
    same(spoken(vesper(Late()), evict_every=3), expected)


def test_a_cache_under_pressure_and_few_slots_change_nothing(
    expected: Mapping[str, Arrays],
) -> None:
    same(spoken(vesper(Late()), blocks=20), expected)


class Recorded(Vesper):
    """Prompts of fixed shapes, as a family has them whose `prefill` reads nothing back."""

    fixed_prompts = True


def test_recorded_prompts_say_the_same(expected: Mapping[str, Arrays]) -> None:
    same(spoken(vesper(Late(), Recorded)), expected)


@pytest.mark.parametrize("kind", [Vesper, Recorded])
def test_launches_are_counted_by_graph_or_eager(kind: type[Vesper]) -> None:
    run = Run(vesper(Late(), kind))
    run.open("r", TEXTS[0], seed=0)
    run.until_all_end()

    def count(path: str) -> float:
        labels = {"stage": "talker", "path": path}
        return run.engine.metrics.registry.get_sample_value("tts_launches_total", labels) or 0.0

    assert count("graph") > 0
    assert bool(count("eager")) is not kind.fixed_prompts


def test_the_host_is_a_step_ahead_of_the_device() -> None:
    device = Late()
    run = Run(vesper(device))
    run.open("r", TEXTS[0], seed=0)
    for _ in range(6):
        run.engine.step()
    assert device._waiting, "the newest launch is not computed yet"
    assert run.chunks["r"], "and yet frames of older ones were sent"


def test_a_step_is_three_copies_and_one_graph() -> None:
    """Two copies to the device where something was staged, one where not, and one back."""
    device = Late()
    run = Run(vesper(device))
    run.open("r", TEXTS[3], seed=0)
    for _ in range(8):
        run.engine.step()
    counted = []
    submit = device.submit
    device.submit = lambda work: (counted.append(1), submit(work))[1]  # type: ignore[method-assign]
    run.engine.step()
    assert len(counted) <= 4


class PoisonedChoice(FrameChoice):
    """NaN enters the hidden state of one seed in its tenth step."""

    def plain(
        self, hidden: Tensor, positions: Tensor, rows: Rows, state: SlotTensors, samples: Tensor
    ) -> Out:
        if not isinstance(rows, Prompts):
            sick = (state["frame"][rows.slots] == 10) & (state["seed"][rows.slots] == 1)
            hidden = hidden + torch.where(sick, torch.nan, 0.0)[:, None]
        return super().plain(hidden, positions, rows, state, samples)


class Poisoned(Vesper):
    """See PoisonedChoice."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._frame = PoisonedChoice(self._net, self.spec.max_positions)


def test_a_row_that_is_not_finite_fails_alone(expected: Mapping[str, Arrays]) -> None:
    run = Run(vesper(Late(), Poisoned))
    for index, text in enumerate(TEXTS):
        run.open(f"r{index}", text, seed=index)
    found = run.until_all_end()
    sick = run.ends["r1"]
    assert isinstance(sick, Failed)
    assert isinstance(sick.error, FloatingPointError)
    same(found, {key: arrays for key, arrays in expected.items() if key != "r1"})


class Broken(Late):
    """A device that fails in its fifth wait of a stream that is served."""

    def __init__(self) -> None:
        super().__init__()
        self.serving, self.waits = False, 0

    def work_until(self, count: int) -> None:
        self.waits += self.serving
        if self.waits == 5:
            raise DeviceError("CUDA error: an illegal memory access was encountered")
        super().work_until(count)


def test_an_error_of_the_device_ends_the_engine() -> None:
    device = Broken()
    run = Run(vesper(device))
    run.open("r", TEXTS[0], seed=0)
    device.serving = True
    with pytest.raises(DeviceError):
        run.until_all_end()


class Refusing(Vesper):
    """Prompts of one seed raise."""

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        if (state["seed"][rows.slots[: rows.real]] == 2).any():
            raise ValueError("this prompt cannot be computed")
        return super().prefill(rows, state, attend)


def test_a_prompt_that_raises_is_found_and_fails_alone(expected: Mapping[str, Arrays]) -> None:
    run = Run(vesper(HostDevice(), Refusing))
    for index, text in enumerate(TEXTS):
        run.open(f"r{index}", text, seed=index)
    found = run.until_all_end()
    assert isinstance(run.ends["r2"], Failed)
    same(found, {key: arrays for key, arrays in expected.items() if key != "r2"})


def test_padding_writes_to_the_reserved_block_alone() -> None:
    family = vesper(HostDevice())
    runner = family.runner(4, 10, 1)
    assert isinstance(runner, DeviceRunner)
    runner.decodes.record(4, 64)
    cache = runner._caches["backbone"]
    assert cache.keys[:, : 10 * 16].count_nonzero() == 0
    assert cache.keys[:, 10 * 16 :].count_nonzero() > 0
    state = runner.state
    assert all(not tensor[:4].any() for tensor in state.tensors.values())


def test_a_decode_step_reads_nothing_back_and_stays_on_its_device() -> None:
    """On tensors without values a read, or a shape that hangs on a value, raises."""
    family, meta = tiny(device="meta"), torch.device("meta")

    def zeros(*shape: int, dtype: Any = torch.int64) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=meta)

    kinds = {"i8": torch.int64, "f4": torch.float32}
    state = {n: zeros(9, *f.shape, dtype=kinds[f.dtype]) for n, f in family.spec.state.items()}
    cache = DeviceCache(family.spec.caches["backbone"], 8, torch.float32, meta)
    slots, positions, tables = zeros(4), zeros(4), zeros(4, 8, dtype=torch.int32)
    attend = cache.decode(tables, positions, 128)
    with torch.inference_mode():
        out = family.decode(Rows(slots, positions, 4), state, {"backbone": attend})
    assert out.gained.device == out.ended.device == out.bad.device == meta
    assert out.frames["code"].shape == (4, 1)
