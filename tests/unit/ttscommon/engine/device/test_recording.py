"""Recordings of several engines never overlap; and a GPU is asked for nothing that spoils one."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.unit.ttscommon.engine.device.test_launches import launches
from tests.waits import TIMEOUT_S
from ttscommon.engine.device import device as devices
from ttscommon.engine.device.device import Cuda, HostDevice, NotRecorded, Recorded
from ttscommon.engine.device.transfer import Buffers, Inputs
from ttscommon.engine.inflight import DeviceError

_TIMEOUT_S = 0.05


class Capturing(HostDevice):
    """A device that asserts that it alone captures, and that nothing is collected meanwhile.

    A capture lingers, so that another one that may begin does.
    """

    captures: ClassVar[list[str]] = []
    under_way: ClassVar[threading.Semaphore] = threading.Semaphore(1)
    other: ClassVar[threading.Event] = threading.Event()

    def _record(self, work: Callable[[], Tensor]) -> Recorded:
        if not self.under_way.acquire(blocking=False):
            self.other.set()
            raise AssertionError("two captures at once")
        try:
            assert not gc.isenabled(), "the collector may free what a capture uses"
            assert not self.other.wait(_TIMEOUT_S), "two captures at once"
            self.captures.append(threading.current_thread().name)
            return super()._record(work)
        finally:
            self.under_way.release()


def test_two_engines_that_start_at_once_never_record_at_once() -> None:
    Capturing.captures.clear()
    failed: list[AssertionError] = []
    begin = threading.Barrier(2)

    def start() -> None:
        of = launches(Capturing())
        begin.wait(TIMEOUT_S)
        try:
            for shape in (8, 4, 2, 1):
                of.recorded(shape)
        except AssertionError as error:
            failed.append(error)

    threads = [threading.Thread(target=start, name=name) for name in ("talker", "vocoder")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    assert sorted(Capturing.captures) == ["talker"] * 4 + ["vocoder"] * 4
    assert gc.isenabled()


def test_the_collector_works_again_after_a_recording_that_failed() -> None:
    def broken() -> Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        HostDevice().record(broken)
    assert gc.isenabled()
    assert HostDevice().record(lambda: torch.ones(1)).out.item() == 1


class FakeCuda:
    """torch.cuda with two GPUs, which fails as the real one does.

    A capture fails if the whole device is waited for, or if it is begun on another GPU than its
    stream's.
    """

    OutOfMemoryError = torch.cuda.OutOfMemoryError

    def __init__(self) -> None:
        self.here = threading.local()
        self.capturing = self.failed = False
        self.pinned_for: list[int] = []
        self.modes: list[str] = []

    def device_count(self) -> int:
        return 2

    @property
    def current(self) -> int:
        return int(getattr(self.here, "index", 0))

    @contextmanager
    def device(self, where: torch.device) -> Iterator[None]:
        before, self.here.index = self.current, where.index
        try:
            yield
        finally:
            self.here.index = before

    def stream(self, stream: Any) -> Any:
        return self.device(stream.device)

    def Stream(self, device: torch.device, priority: int) -> Any:  # noqa: N802
        del priority
        quiet = {"synchronize": lambda: None, "wait_stream": lambda other: None}
        return SimpleNamespace(device=device, **quiet)

    def current_stream(self, where: torch.device) -> Any:
        return SimpleNamespace(device=where)

    def graph_pool_handle(self) -> Any:
        return object()

    def mem_get_info(self, where: torch.device) -> tuple[int, int]:
        assert self.current == where.index
        return 3, 4

    def synchronize(self) -> None:
        raise AssertionError("waits for the whole device")

    def CUDAGraph(self) -> Any:  # noqa: N802
        return SimpleNamespace(
            capture_begin=self._begin, capture_end=self._end, replay=lambda: None
        )

    def _begin(self, pool: Any, capture_error_mode: str) -> None:
        assert not self.capturing
        assert self.current == 1
        self.capturing = True
        self.modes.append(capture_error_mode)

    def _end(self) -> None:
        self.capturing = False
        if self.failed:
            raise RuntimeError("CUDA error: operation failed due to a previous error")

    def Event(self) -> Any:  # noqa: N802
        return SimpleNamespace(record=self._marked, synchronize=lambda: None)

    def _marked(self, stream: Any) -> None:
        assert self.current == stream.device.index


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    empty = torch.empty

    def pinned(size: int, *, dtype: torch.dtype, pin_memory: bool = False) -> Tensor:
        assert pin_memory
        fake.pinned_for.append(fake.current)
        return empty(size, dtype=dtype)

    told = {"cuda": fake, "empty": pinned, "backends": torch.backends}
    names = ("device", "Tensor", "OutOfMemoryError", "AcceleratorError", "uint8")
    real = {name: getattr(torch, name) for name in names}
    monkeypatch.setattr(devices, "torch", SimpleNamespace(**real, **told))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    return fake


def test_a_capture_waits_for_its_own_stream_alone_and_lets_other_threads_work(
    cuda: FakeCuda,
) -> None:
    seen: list[bool] = []

    def work() -> Tensor:
        seen.append(cuda.capturing)
        return torch.ones(1)

    Cuda(1).record(work)
    assert seen == [False, False, True]
    assert cuda.modes == ["thread_local"]
    assert not cuda.capturing


def uncapturable(cuda: FakeCuda) -> Callable[[], Tensor]:
    def work() -> Tensor:
        if cuda.capturing:
            cuda.failed = True
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        return torch.ones(1)

    return work


def test_a_capture_that_fails_is_ended_and_says_what_failed_first(cuda: FakeCuda) -> None:
    with pytest.raises(NotRecorded, match="not permitted"):
        Cuda(1).record(uncapturable(cuda))
    assert not cuda.capturing


def test_a_capture_that_took_the_device_along_ends_the_engine(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> None:
        if cuda.failed:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    device = Cuda(1)
    monkeypatch.setattr(device._stream, "synchronize", gone)
    with pytest.raises(DeviceError, match="illegal memory access"):
        device.record(uncapturable(cuda))


def test_what_cannot_be_recorded_is_run_at_once_and_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Refusing(HostDevice):
        def _record(self, work: Callable[[], Tensor]) -> Recorded:
            raise NotRecorded("no graphs here")

    of = launches(Refusing())
    for shape in (2, 1):
        of.recorded(shape)
        assert not of.knows(shape)
    fetch, path = of.launch(2, {"n": np.array([4, 5])}, 2)
    assert (path, fetch.wait()["square"].tolist()) == ("eager", [16, 25])
    assert capsys.readouterr().out.count("no graphs here") == 1


def test_what_is_made_for_a_device_is_there_for_what_is_submitted_behind_it(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros are written on another stream than that of launches and copies."""
    device, order = Cuda(1), list[str]()
    monkeypatch.setattr(device._stream, "wait_stream", lambda _: order.append("waits"))
    device.where = torch.device("cpu")
    device._here = lambda: cuda.device(torch.device("cuda", 1))  # type: ignore[method-assign]
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *a, **k: (order.append("zeros"), zeros(*a, **k))[1])
    inputs = Inputs(device, Buffers(device), {"n": ((2,), "i8")})
    inputs.fill({"n": np.array([1, 2])})
    assert order == ["zeros", "waits"]
    assert inputs.tensors["n"].tolist() == [1, 2]


def test_a_second_gpu_is_the_current_one_of_whatever_thread_uses_it(cuda: FakeCuda) -> None:
    device, current = Cuda(1), list[int]()

    def serve() -> None:
        device.submit(lambda: current.append(cuda.current))
        with device.aside():
            current.append(cuda.current)
        device.mark().wait()
        device.pinned(16)
        assert device.free_bytes() == 3

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join(10)
    assert (current, cuda.pinned_for) == ([1, 1], [1])
    assert cuda.current == 0, "and no other thread's"


def test_a_device_computes_float32_in_float32(cuda: FakeCuda) -> None:
    Cuda(1)
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
