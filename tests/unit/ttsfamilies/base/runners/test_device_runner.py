"""The runner of a device, on a CPU that computes as late as a device may.

All is float32 here, so ids are those of the CPU's engine except near ties, about one frame in
40,000 (docs/decisions/bit-exactness.md); seeds are fixed.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.late import Late
from tests.launches import META
from tests.turning import launches
from tests.unit.ttsfamilies.test_conformance import Bench, request, same
from tests.unit.ttsfamilies.tiny_vesper import tiny
from ttscommon.engine.device.device import Device, HostDevice
from ttscommon.engine.inflight import DeviceError
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.runners.computation import Attend, Out, Prompts, Rows, SlotTensors
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.runners.resident import DeviceCache
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


def bench_of(family: Vesper, blocks: int = 160) -> Bench:
    return Bench(family, family.depth, blocks=blocks)


def spoken(bench: Bench, evict_every: int = 0) -> dict[str, Arrays]:
    """What TEXTS, one after the other, say."""
    for index, text in enumerate(TEXTS):
        bench.open(request(f"r{index}", text, seed=index))
        for step in range(5):
            bench.engine.step()
            if evict_every and step % evict_every == 1:
                for stream in bench.engine._slots:
                    stream.evict()
    bench.run()
    heard = bench.heard.items()
    return {key: one.arrays for key, one in heard if isinstance(one.end, Finished)}


def all_same(found: Mapping[str, Arrays], expected: Mapping[str, Arrays], but: str = "") -> None:
    assert found.keys() == expected.keys() - {but}
    for key, arrays in found.items():
        same(arrays, expected[key])


@pytest.fixture(scope="module")
def expected() -> dict[str, Arrays]:
    return spoken(bench_of(vesper()))


class Fixed(Vesper):
    """Prompts of fixed shapes, as a family has them whose `prefill` reads nothing back."""

    fixed_prompts = True


@pytest.mark.parametrize(
    ("device", "kind", "blocks", "evict_every"),
    [
        pytest.param(HostDevice, Vesper, 160, 0, marks=pytest.mark.slow, id="at once"),
        pytest.param(Late, Vesper, 160, 0, id="late"),
        pytest.param(Late, Vesper, 160, 3, id="streams give way and come back"),
        pytest.param(Late, Vesper, 20, 0, id="a cache under pressure"),
        pytest.param(Late, Fixed, 160, 0, id="recorded prompts"),
    ],
)
def test_a_device_says_what_the_cpu_says(
    device: type[Device],
    kind: type[Vesper],
    blocks: int,
    evict_every: int,
    expected: Mapping[str, Arrays],
) -> None:
    bench = bench_of(vesper(device(), kind), blocks)
    all_same(spoken(bench, evict_every), expected)
    assert launches(bench.engine.metrics, "talker", "graph") > 0
    eager = launches(bench.engine.metrics, "talker", "eager")
    assert bool(eager) is not kind.fixed_prompts


def test_the_host_is_a_step_ahead_of_the_device() -> None:
    device = Late()
    bench = bench_of(vesper(device))
    heard = bench.open(request(text=TEXTS[0], seed=0))
    for _ in range(6):
        bench.engine.step()
    assert device._waiting, "the newest launch is not computed yet"
    assert heard.chunks, "and yet frames of older ones were sent"


def test_a_step_is_three_copies_and_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies to the device where something was staged, one where not, and one back."""
    device, counted = Late(), list[object]()
    bench = bench_of(vesper(device))
    bench.open(request(text=TEXTS[3], seed=0))
    for _ in range(8):
        bench.engine.step()
    submit = device.submit
    monkeypatch.setattr(device, "submit", lambda work: (counted.append(work), submit(work))[1])
    bench.engine.step()
    assert 0 < len(counted) <= 4


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


class Refusing(Vesper):
    """Prompts of one seed raise."""

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        if (state["seed"][rows.slots[: rows.real]] == 1).any():
            raise ValueError("this prompt cannot be computed")
        return super().prefill(rows, state, attend)


@pytest.mark.parametrize(
    ("kind", "device", "error"),
    [(Poisoned, Late, FloatingPointError), (Refusing, HostDevice, ValueError)],
)
def test_a_row_that_is_not_finite_and_a_prompt_that_raises_fail_alone(
    kind: type[Vesper],
    device: type[Device],
    error: type[Exception],
    expected: Mapping[str, Arrays],
) -> None:
    bench = bench_of(vesper(device(), kind))
    found = spoken(bench)
    sick = bench.heard["r1"].end
    assert isinstance(sick, Failed)
    assert isinstance(sick.error, error)
    all_same(found, expected, but="r1")


def test_an_error_of_the_device_ends_the_engine() -> None:
    device = Late()
    bench = bench_of(vesper(device))
    bench.open(request(text=TEXTS[0], seed=0))
    for _ in range(4):
        bench.engine.step()
    device.broken = True
    with pytest.raises(DeviceError):
        bench.run()


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
    family = tiny(device="meta")

    def zeros(*shape: int, dtype: Any = torch.int64) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=META)

    kinds = {"i8": torch.int64, "f4": torch.float32}
    state = {n: zeros(9, *f.shape, dtype=kinds[f.dtype]) for n, f in family.spec.state.items()}
    cache = DeviceCache(family.spec.caches["backbone"], 8, torch.float32, META)
    slots, positions, tables = zeros(4), zeros(4), zeros(4, 8, dtype=torch.int32)
    attend = cache.decode(tables, positions, 128)
    with torch.inference_mode():
        out = family.decode(Rows(slots, positions, 4), state, {"backbone": attend})
    assert out.gained.device == out.ended.device == out.bad.device == META
    assert out.frames["code"].shape == (4, 1)
