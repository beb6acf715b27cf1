"""Steps of the solver on a device, on a CPU that computes as late as a device may."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tests.late import Late
from tests.unit.ttsfamilies.cosyvoice.s3_flow.test_codec import FIRST, TURBO, Run, tokens
from tests.unit.ttsfamilies.cosyvoice.s3_flow.tiny import PROMPT, Tiny, tiny, tiny_on, told
from ttscommon.engine.device.device import HostDevice
from ttsfamilies.base.codec.base import Work
from ttsfamilies.base.codec.options import DeviceLimits
from ttsfamilies.cosyvoice.s3_flow.recorded import RecordedSteps, StepShape, StepShapes
from ttsfamilies.cosyvoice.s3_flow.sizes import CHUNK
from vocoder.engine.stream import Finished
from vocoder.pcm import to_pcm

pytestmark = pytest.mark.slow

Pcm = npt.NDArray[np.int16]

ROOM = DeviceLimits(states=8, streams=2)
# A first stretch, two on the grid, and an end with what was looked at.
LONG = FIRST + 2 * CHUNK + 4
META = torch.device("meta")


def on(
    device: Late | HostDevice, memory: int = 1 << 26, kind: str = TURBO, grid: int = CHUNK
) -> Tiny:
    return tiny_on(device, ROOM, kind, grid, memory)


def steps(codec: Tiny) -> RecordedSteps:
    found = codec._carrying
    assert isinstance(found, RecordedSteps)
    return found


def record(codec: Tiny) -> Tiny:
    """Short stretches alone."""
    of = steps(codec)
    of._shapes = StepShapes(ROOM.streams, grid=True, pages=2)
    of.record()
    return codec


def spoken(codec: Tiny, counts: Sequence[int] = (LONG, LONG + 3, 7)) -> tuple[float, list[Pcm]]:
    """Launches of graphs, and streams that join one after the other, more than a step takes."""
    run = Run(codec)
    for number, count in enumerate(counts):
        run.open(f"r{number}", count, final=True)
        run.step(2)
    run.finish(*run.heard)
    assert all(isinstance(events[-1], Finished) for events in run.heard.values())
    labels = {"stage": "vocoder", "path": "graph"}
    launches = run.engine.metrics.registry.get_sample_value("tts_launches_total", labels)
    return launches or 0.0, [run.pcm(key) for key in run.heard]


def near(heard: Sequence[Pcm], others: Sequence[Pcm], tolerance: int) -> None:
    for one, other in zip(heard, others, strict=True):
        assert len(one) == len(other)
        assert np.abs(one.astype(int) - other).max() <= tolerance


@pytest.fixture(scope="module")
def as_recorded() -> list[Pcm]:
    launches, heard = spoken(record(on(Late())))
    assert launches > 10
    return heard


def test_recorded_steps_give_the_bits_of_steps_at_once_and_sound_as_the_cpu_does(
    as_recorded: list[Pcm],
) -> None:
    launches, heard = spoken(on(Late()))
    assert launches == 0
    near(heard, as_recorded, 0)
    codec = tiny(TURBO, CHUNK)
    near(heard, spoken(codec)[1], codec.spec.tolerance)


@pytest.mark.parametrize("kind", ["cosyvoice2", "cosyvoice3"])
def test_published_numbers_of_steps_sound_on_a_device_as_on_the_cpu(kind: str) -> None:
    codec = record(on(Late(), kind=kind))
    launches, heard = spoken(codec, (LONG, 9))
    assert launches > 10
    near(heard, spoken(tiny(kind, CHUNK), (LONG, 9))[1], codec.spec.tolerance)


def test_a_sentence_that_is_solved_whole_carries_nothing_and_sounds_the_same() -> None:
    """Its frames are more than any bucket holds."""
    count = 2 * CHUNK
    left = np.arange(count, dtype=np.int32)[::-1].copy()
    frames = {**tokens(count), "left": left}
    codec = on(Late(), grid=0)
    steps(codec)._shapes = StepShapes(1, grid=False, pages=2)
    assert (steps(codec).pages.count, codec.state_use.memory_bytes) == (0, 0)
    heard = [
        to_pcm(of.decode([Work(told(of), frames, final=True)])[0]) for of in (codec, tiny(TURBO, 0))
    ]
    near(heard[:1], heard[1:], codec.spec.tolerance)


def test_what_others_left_anywhere_is_heard_by_no_stream(as_recorded: list[Pcm]) -> None:
    codec = on(HostDevice())
    of = steps(codec)
    of.pages.tensor[: of.pages.blank] = torch.nan
    of.pages.tensor[of.pages.waste] = torch.nan
    for rows in of._rows.values():
        rows.fill_(torch.nan)
    near(spoken(codec)[1], as_recorded, 0)


def test_pages_are_counted_taken_and_given_back() -> None:
    codec = on(HostDevice())
    run = Run(codec)
    every = run.engine.kv_positions[1]
    assert every == steps(codec).pages.count * CHUNK
    assert every * codec.spec.state_bytes <= codec.state_use.memory_bytes
    run.open("a", FIRST)
    run.step(4)
    assert run.engine.kv_positions == (every - PROMPT - FIRST + 3, every)
    assert codec.state_use.held_bytes == 2 * CHUNK * codec.spec.state_bytes
    run.engine.cancel("a")
    run.step()
    assert run.engine.kv_positions == (every, every)
    assert run.engine.idle


@pytest.mark.parametrize("pages", [0, 3])
def test_a_stream_without_pages_is_computed_again_and_sounds_the_same(
    as_recorded: list[Pcm], pages: int
) -> None:
    each = CHUNK * tiny(TURBO, CHUNK).spec.state_bytes
    codec = on(HostDevice(), memory=(pages + 1) * each if pages else 0)
    assert steps(codec).pages.count == pages
    near(spoken(codec)[1], as_recorded, codec.spec.tolerance)
    assert codec.state_use.recomputed > 1
    assert codec.state_use.held_bytes == 0


def test_a_launch_that_fails_gives_back_the_pages_that_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codec = on(HostDevice())
    state, of = told(codec), steps(codec)
    hop = tokens(FIRST)
    work = Work(state, codec.spec.none(), final=False, segment=hop)

    def broken(*_: object) -> None:
        raise MemoryError("no memory for an intermediate")

    with monkeypatch.context() as patched:
        patched.setattr(type(of.net), "moved", broken)
        with pytest.raises(MemoryError):
            codec.launch([work])
    assert of.pages.free == of.pages.count
    codec.launch([work])
    assert of.pages.free == of.pages.count - 2


def test_stretches_share_a_launch_by_their_lengths_and_no_launch_is_too_large() -> None:
    shapes = StepShapes(8, grid=True)
    parts = shapes.parts([(1, 3), (4, 0), (1, 0), (1, 12), (3, 0)])
    assert parts == [(StepShape(4, 1, 32), [0, 2, 3]), (StepShape(2, 4, 0), [1, 4])]
    assert shapes.parts([(16, 0)] * 3) == [
        (StepShape(2, 16, 0), [0, 1]),
        (StepShape(1, 16, 0), [2]),
    ]
    assert shapes.parts([(1, 40), (17, 0), (4, 1)]) == [
        (StepShape(1, 1, 64), [0]),
        (StepShape(1, 32, 0), [1]),
        (StepShape(1, 4, 1), [2]),
    ]


@pytest.mark.parametrize("grid", [True, False])
def test_all_that_is_recorded_comes_up_and_the_largest_is_first(grid: bool) -> None:
    shapes = StepShapes(16, grid=grid)
    expected = shapes.expected()
    assert max(shape.streams * shape.pages for shape in expected) <= 32
    assert {shape.before for shape in expected} == ({0, 8, 32} if grid else {0})
    for shape in expected:
        works = [(shape.pages, shape.before)] * shape.streams
        assert shapes.parts(works) == [(shape, list(range(shape.streams)))]
    assert len(expected) == (39 if grid else 19)


@pytest.mark.parametrize("kind", ["cosyvoice2", "cosyvoice3"])
def test_a_step_reads_nothing_back(kind: str) -> None:
    """Its tensors have shapes alone: a read, or a shape that hangs on a value, raises."""
    of, shape = steps(on(HostDevice(), kind=kind)), StepShape(2, 1, 8)
    inputs = of._input_shapes(shape).items()
    told = {name: torch.zeros(size, dtype=torch.int64, device=META) for name, (size, _) in inputs}
    of.pages.tensor, of._times = of.pages.tensor.to(META), of._times.to(META)
    of._rows = {name: rows.to(META) for name, rows in of._rows.items()}
    of.net = deepcopy(of.net).to(META)
    with torch.inference_mode():
        results = of._compute(told, shape)
    assert {tensor.device for tensor in results.values()} == {META}
