"""Codecs on a device, on a CPU that computes as late as a device may."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import count

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tests.late import Late
from tests.launches import META, WithoutValues
from tests.turning import launches, turn
from tests.unit.ttsfamilies.qwen3_tts.codec import tiny as tiny_qwen3
from tests.unit.vocoder import tiny_vesper
from ttscommon.engine.device.device import Device, HostDevice
from ttscommon.engine.inflight import DeviceError
from ttscommon.engine.pace import Contention
from ttscommon.engine.slots import NoSlot
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, cut
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, Work
from ttsfamilies.base.codec.options import BatchShape, DeviceLimits
from ttsfamilies.base.codec.stateful import StatefulCodec
from vocoder.engine.engine import Engine
from vocoder.engine.scheduler import BatchLimits
from vocoder.engine.stream import DecodedAudio, Event, Failed, Finished
from vocoder.pcm import to_pcm

Pcm = npt.NDArray[np.int16]

ROOM = DeviceLimits(states=16, streams=4, frames=16, stream_frames=6)
FRAMES = 24
CPU: dict[str, Callable[[], Codec]] = {
    "vesper": tiny_vesper.tiny,
    "vesper in longer hops": partial(tiny_vesper.tiny, tiny_vesper.LONGER),
    "qwen3": tiny_qwen3.tiny,
    "qwen3 in windows": partial(tiny_qwen3.tiny, 10, 4),
}
ON_A_DEVICE: dict[str, Callable[[Device], StatefulCodec]] = {
    "vesper": lambda device: tiny_vesper.tiny_on(device, ROOM),
    "vesper in longer hops": lambda device: tiny_vesper.tiny_on(device, ROOM, tiny_vesper.LONGER),
    "qwen3": lambda device: tiny_qwen3.tiny_on(device, ROOM),
    "qwen3 in windows": lambda device: tiny_qwen3.tiny_on(device, ROOM, 10, 4),
}
# What the others do is in these: windows are of the same steps, and longer hops of the same net.
both_kinds = pytest.mark.parametrize(
    "family",
    [
        *("vesper", "qwen3 in windows"),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("vesper in longer hops", "qwen3")),
    ],
)


def request(key: str, voice: str = "slt") -> SpeechRequest:
    return SpeechRequest(key, "m", voice, "text", seed=1)


@cache
def frames(family: str, seed: int) -> Arrays:
    vesper = family.startswith("vesper")
    limit = tiny_vesper.ENTRIES if vesper else tiny_qwen3.SIZES.codebook_size
    drawn = np.random.default_rng(seed).integers(0, limit, (FRAMES, 4))
    return {"codes": drawn.astype(np.int16)}


@cache
def offline(family: str, seed: int) -> Pcm:
    """What the CPU's codec makes of a stream in one piece."""
    codec = CPU[family]()
    (samples,) = codec.decode([Work(codec.open(request("r")), frames(family, seed), final=True)])
    return to_pcm(samples)


class Run:
    """An engine stepped by hand, by a clock of its own, and what each stream gave."""

    def __init__(self, family: str, codec: Codec) -> None:
        limits, milliseconds = BatchLimits(ROOM.streams, ROOM.frames, ROOM.stream_frames), count()
        self.family, self.metrics = family, Metrics()
        self.engine = Engine(
            codec,
            slots=8,
            metrics=self.metrics,
            limits=limits,
            clock=lambda: next(milliseconds) / 1000,
            contention=Contention(read=lambda: None),
        )
        self.engine.listen(self._listen)
        self.pcm: dict[str, list[Pcm]] = {}
        self.ends: dict[str, Event] = {}

    def _listen(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            if isinstance(event, DecodedAudio):
                self.pcm[key].append(event.pcm)
            else:
                self.ends[key] = event

    def open(self, seed: int, voice: str = "slt") -> str:
        key = f"r{seed}"
        self.pcm[key] = []
        self.engine.open(request(key, voice))
        return key

    def feed(self, seed: int, first: int, last: int) -> None:
        self.engine.feed(f"r{seed}", cut(frames(self.family, seed), first, last))
        if last == FRAMES:
            self.engine.finish(f"r{seed}")

    def steps(self, turns: int = 1) -> None:
        for _ in range(turns):
            turn(self.engine)

    def heard(self) -> dict[str, Pcm]:
        for _ in range(200):
            if len(self.ends) == len(self.pcm):
                break
            self.steps()
        self.steps()
        assert self.engine.idle
        spoken = [key for key, end in self.ends.items() if isinstance(end, Finished)]
        return {key: np.concatenate(self.pcm[key]) for key in spoken}

    def launches(self, path: str) -> float:
        return launches(self.metrics, "vocoder", path)


def spoken(family: str, codec: Codec, *, sick: bool = False) -> tuple[Run, dict[str, Pcm]]:
    """Streams that join, leave and are fed pieces of all sizes, more of them than a step takes."""
    run = Run(family, codec)
    cuts = {seed: np.random.default_rng(seed).integers(1, 9, 40).cumsum() for seed in range(7)}
    done = dict.fromkeys(cuts, 0)
    for at in range(FRAMES + 7):
        if at < 7:
            run.open(at, "sick" if sick and at == 2 else "slt")
        if at == 9:
            run.engine.cancel("r5")
            del cuts[5], run.pcm["r5"]
        for seed in cuts:
            last = min(FRAMES, int(cuts[seed][max(0, at - seed)]))
            if at >= seed and last > done[seed]:
                run.feed(seed, done[seed], last)
                done[seed] = last
        run.steps()
    return run, run.heard()


def near(heard: dict[str, Pcm], family: str, but: Sequence[str] = ()) -> None:
    assert heard.keys() == {f"r{seed}" for seed in (0, 1, 2, 3, 4, 6)} - set(but)
    for key, pcm in heard.items():
        expected = offline(family, int(key[1:]))
        assert len(pcm) == len(expected)
        assert np.abs(pcm.astype(int) - expected).max() <= 1, key


@pytest.mark.parametrize("family", CPU)
@pytest.mark.parametrize(
    ("device", "path"),
    [
        pytest.param(HostDevice, "graph", marks=pytest.mark.slow),
        *((Late, "graph"), (Late, "eager")),
    ],
)
def test_a_device_sounds_as_the_cpu_does(family: str, device: type[Device], path: str) -> None:
    codec = ON_A_DEVICE[family](device())
    if path == "graph":
        codec.warm_up([(1, 1)])
    run, heard = spoken(family, codec)
    near(heard, family)
    assert run.launches(path) > 10
    assert run.launches("eager" if path == "graph" else "graph") == 0


@both_kinds
def test_too_many_streams_take_two_launches_and_too_many_frames_run_at_once(family: str) -> None:
    codec = ON_A_DEVICE[family](Late())
    codec.warm_up([(1, 1)])
    states = [codec.open(request(f"r{seed}")) for seed in range(5)]
    many = [
        Work(state, cut(frames(family, seed), 0, 2), final=False)
        for seed, state in enumerate(states)
    ]
    long = Work(states[0], cut(frames(family, 0), 2, FRAMES), final=True)
    first, then = codec.launch(many), codec.launch([long])
    assert list(codec.paths(first)) == ["graph", "graph"]
    assert "eager" in codec.paths(then)
    samples = [codec.collect(ticket)[0].samples for ticket in (first, then)]
    difference = to_pcm(np.concatenate(samples)).astype(int) - offline(family, 0)
    assert np.abs(difference).max() <= 1


def test_works_without_a_frame_have_no_sound() -> None:
    codec = ON_A_DEVICE["qwen3"](Late())
    none = Work(codec.open(request("r")), codec.spec.none(), final=True)
    assert [len(samples) for samples in codec.decode([none])] == [0]


@both_kinds
def test_a_row_that_is_not_finite_leaves_nothing_to_the_next_stream(family: str) -> None:
    codec = ON_A_DEVICE[family](Late())
    codec.warm_up([(1, 1)])
    for tensor in codec.on_device.slots.tensors.values():
        if tensor.is_floating_point():
            tensor.fill_(torch.nan)
    near(spoken(family, codec)[1], family)


def test_a_stream_that_is_not_finite_fails_alone() -> None:
    codec = ON_A_DEVICE["vesper"](Late())
    codec.warm_up([(1, 1)])
    run, heard = spoken("vesper", codec, sick=True)
    end = run.ends["r2"]
    assert isinstance(end, Failed)
    assert isinstance(end.error, FloatingPointError)
    near(heard, "vesper", but=["r2"])


@pytest.mark.parametrize("family", CPU)
def test_padding_writes_to_the_reserved_row_alone(family: str) -> None:
    codec = ON_A_DEVICE[family](HostDevice())
    for tensor in codec.on_device.slots.tensors.values():
        tensor.fill_(7)
    for shape in codec.on_device.shapes.expected():
        codec.on_device.launches.recorded(shape)
    for tensor in codec.on_device.slots.tensors.values():
        assert (tensor[:-1] == 7).all()
        assert not tensor.numel() or not (tensor[-1] == 7).all()


def test_the_host_is_a_step_ahead_and_a_step_is_two_copies_and_one_graph() -> None:
    device = Late()
    codec = ON_A_DEVICE["qwen3"](device)
    codec.warm_up([(1, 1)])
    run = Run("qwen3", codec)
    run.open(0)
    run.feed(0, 0, FRAMES)
    run.steps(2)
    before = len(device._waiting)
    run.steps()
    assert len(device._waiting) == before == 3, "in, graph and out of the newest launch"
    assert run.pcm["r0"], "and yet sound of older ones was sent"


def test_rows_come_back_when_streams_close() -> None:
    codec = ON_A_DEVICE["qwen3"](HostDevice())
    states = [codec.open(request(str(n))) for n in range(ROOM.states)]
    with pytest.raises(NoSlot):
        codec.open(request("one more"))
    codec.close(states[3])
    assert codec.open(request("one more")).row == states[3].row
    codec.close(states[4])
    with pytest.raises(AssertionError, match="twice"):
        codec.close(states[4])


def test_an_error_of_the_device_ends_the_engine() -> None:
    device = Late()
    codec = ON_A_DEVICE["vesper"](device)
    codec.warm_up([(1, 1)])
    run = Run("vesper", codec)
    run.open(0)
    run.feed(0, 0, FRAMES)
    device.broken = True
    with pytest.raises(DeviceError):
        run.heard()


def test_a_launch_that_fails_behind_its_beginning_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """States may have changed by then: nobody could say what a second try would start from."""
    codec = tiny_qwen3.tiny_on(HostDevice(), ROOM)

    def broken(*_: object) -> None:
        raise RuntimeError("no memory for an intermediate")

    monkeypatch.setattr(codec._net, "step", broken)
    with pytest.raises(DeviceError, match="intermediate"):
        codec.decode([Work(codec.open(request("r")), frames("qwen3", 0), final=True)])


def test_a_work_that_cannot_be_read_fails_alone_and_before_anything_changed() -> None:
    codec = ON_A_DEVICE["qwen3"](Late())
    codec.warm_up([(1, 1)])
    run = Run("qwen3", codec)
    for seed in (0, 1):
        run.open(seed)
        run.feed(seed, 0, FRAMES)
    run.steps()
    stream = run.engine._slots.get("r1")
    assert stream is not None
    stream.state = None
    monkey = codec.close
    codec.close = lambda state: None if state is None else monkey(state)  # type: ignore[method-assign]
    heard = run.heard()
    assert isinstance(run.ends["r1"], Failed)
    assert np.abs(heard["r0"].astype(int) - offline("qwen3", 0)).max() <= 1


@pytest.mark.parametrize("family", ["vesper", "vesper in longer hops"])
def test_a_step_reads_nothing_back_and_stays_on_its_device(family: str) -> None:
    """kernels/test_launches.py says so of Qwen3-TTS."""
    codec, shape = ON_A_DEVICE[family](WithoutValues()), BatchShape(4, 8)
    kinds = {"i2": torch.int16, "i8": torch.int64, "f4": torch.float32, "?": torch.bool}
    told = {
        name: torch.zeros(size, dtype=kinds[dtype], device=META)
        for name, (size, dtype) in codec.on_device._input_shapes(shape).items()
    }
    with torch.inference_mode():
        results = codec.on_device._run(told, shape)
    assert results["samples"].shape == (4, 8 * codec.spec.samples_per_frame)
    assert {tensor.device for tensor in results.values()} == {META}
