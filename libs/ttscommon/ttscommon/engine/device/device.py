"""A device that works through what it is given, in order, while the host goes on.

Runners speak to `Device` alone. `Cuda` is the real one; `HostDevice` does the same at once, on
the CPU, through the same static buffers, so that a runner's books are tested where no GPU is.
"""

from __future__ import annotations

import gc
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from ttscommon.engine.inflight import DeviceError, reason
from ttscommon.engine.kernels.trial import Trial, kernels_or_twins, plain_from_now_on

_RECORDING: Final = threading.Lock()
Work = Callable[[], object]
_WARM_UPS: Final = 2


class DeviceEvent(Protocol):
    """A point in the device's work."""

    def wait(self) -> None:
        """Block until the device is there. Raises DeviceError."""


class NotRecorded(Exception):
    """Work that this device cannot record; it can still be run operation by operation."""


@dataclass(frozen=True)
class Recorded:
    """Work of fixed shapes that can be run again: `run` puts its result into `out`."""

    run: Work
    out: Tensor


class Device(ABC):
    """Where a model computes. Methods may be called from any thread, but not by two at once."""

    where: torch.device

    def free_bytes(self) -> int | None:
        """Memory that no process has taken; None where it is the host's."""
        return None

    @abstractmethod
    def submit(self, work: Work) -> None:
        """Have the device do this after all that was submitted before. Raises DeviceError."""

    @abstractmethod
    def mark(self) -> DeviceEvent:
        """The end of all that was submitted so far."""

    def record(self, work: Callable[[], Tensor]) -> Recorded:
        """Make work ready to be submitted again and again; runs it, so its inputs must do no harm.

        `work` reads and writes tensors that stay where they are, and nothing on the host. Takes
        too long to be done while listeners wait. Where a kernel does not compile for what the work
        asks of it, its twin is recorded. Raises NotRecorded or DeviceError.
        """
        with alone():
            try:
                return self._record(work)
            except Exception as error:
                if not _of_triton(error):
                    raise
                plain_from_now_on(reason(error))
                return self._record(work)

    @abstractmethod
    def _record(self, work: Callable[[], Tensor]) -> Recorded:
        """See `record`; no other recording of this process is under way."""

    def making(self) -> AbstractContextManager[object]:
        """Tensors that are made inside are there for all that is submitted behind it."""
        return nullcontext()

    @abstractmethod
    def aside(self) -> AbstractContextManager[object]:
        """What is computed inside does not wait for what was submitted, and blocks when read."""

    @abstractmethod
    def pinned(self, size: int) -> Tensor:
        """A buffer of bytes on the host that copies from and to the device without a wait."""


class _Now:
    def wait(self) -> None:
        return


class HostDevice(Device):
    """The CPU, which has done everything when `submit` returns."""

    def __init__(self) -> None:
        self.where = torch.device("cpu")

    def submit(self, work: Work) -> None:
        work()

    def mark(self) -> DeviceEvent:
        return _Now()

    def _record(self, work: Callable[[], Tensor]) -> Recorded:
        out = work().clone()
        return Recorded(lambda: out.copy_(work()), out)

    def aside(self) -> AbstractContextManager[object]:
        return nullcontext()

    def pinned(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8)


class Cuda(Device):
    """A GPU: one stream, graphs that share one pool of memory.

    Products of float32 are computed in float32, not in TF32 (docs/decisions/bit-exactness.md).
    priority: of the stream; lower numbers go first where two engines share the GPU.
    """

    def __init__(self, index: int = 0, priority: int = 0) -> None:
        """Raises DeviceError where there is no such GPU."""
        if index >= torch.cuda.device_count():
            raise DeviceError(f"there is no CUDA device {index}")
        exact_products()
        self.where = torch.device("cuda", index)
        with self._here():
            self._stream = _stream(self.where, priority)
            self._side = _stream(self.where, priority)
            self._pool: Any = torch.cuda.graph_pool_handle()

    @contextmanager
    def _here(self) -> Iterator[None]:
        """This GPU is the current one of the thread: Triton launches on that, and pins for it."""
        with _device_errors(), torch.cuda.device(self.where):
            yield

    def free_bytes(self) -> int | None:
        with self._here():
            free, _ = torch.cuda.mem_get_info(self.where)
        return free

    def submit(self, work: Work) -> None:
        with self._here(), torch.cuda.stream(self._stream):
            work()

    def mark(self) -> DeviceEvent:
        with self._here():
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(self._stream)
        return _Event(event)

    def _record(self, work: Callable[[], Tensor]) -> Recorded:
        with self._here():
            self._stream.wait_stream(torch.cuda.current_stream(self.where))
            with torch.cuda.stream(self._stream):
                for _ in range(_WARM_UPS):  # compiles kernels, and sets up what libraries need
                    work()
                self._stream.synchronize()
                try:
                    graph, out = self._captured(work)
                except RuntimeError as error:
                    self._stream.synchronize()  # raises where no later call can be trusted
                    raise NotRecorded(reason(error)) from error
        return Recorded(graph.replay, out)

    def _captured(self, work: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """What `torch.cuda.graph` does, without waiting for the whole device first.

        Another engine's thread may use the GPU during the capture.
        """
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            out = work()
        except BaseException:
            with suppress(RuntimeError):  # says of what failed that it failed
                graph.capture_end()
            raise
        graph.capture_end()
        return graph, out

    @contextmanager
    def making(self) -> Iterator[None]:
        with self._here():
            yield
            self._stream.wait_stream(torch.cuda.current_stream(self.where))

    @contextmanager
    def aside(self) -> Iterator[object]:
        with self._here(), torch.cuda.stream(self._side):
            yield self._side

    def pinned(self, size: int) -> Tensor:
        with self._here():
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def _of_triton(error: Exception) -> bool:
    """Whether a compiler refused a kernel: nothing was launched. What a driver reports is another
    matter.
    """
    return type(error).__module__.startswith("triton.")


def exact_products(exact: bool = True) -> None:
    """Whether products and convolutions of float32 keep all of its bits, in this process."""
    torch.backends.cudnn.allow_tf32 = not exact
    torch.backends.cuda.matmul.allow_tf32 = not exact


def _stream(where: torch.device, priority: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(where, priority=priority)  # type: ignore[no-untyped-call]


class _Event:
    def __init__(self, event: torch.cuda.Event) -> None:
        self._event = event

    def wait(self) -> None:
        with _device_errors():
            self._event.synchronize()


@contextmanager
def _device_errors() -> Iterator[None]:
    """What CUDA reports ends the engine: no later call on this context can be trusted.

    Out of memory is none of it: nothing was launched, and a smaller batch may fit.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except torch.AcceleratorError as error:
        raise DeviceError(reason(error)) from error
    except RuntimeError as error:
        if "CUDA" in str(error) or "Triton Error" in str(error):
            raise DeviceError(reason(error)) from error
        raise


def device_of(name: str, priority: int = 0, trials: Sequence[Trial] = ()) -> Device | None:
    """The device of a setting ("cuda", "cuda:1"); None for "cpu", which needs none.

    priority: see Cuda. trials: see kernels_or_twins. Raises DeviceError.
    """
    where = torch.device(name)
    if where.type == "cpu":
        return None
    device = Cuda(where.index or 0, priority)
    kernels_or_twins(device.where, trials)
    return device


@contextmanager
def alone() -> Iterator[None]:
    """What is recorded inside is disturbed by no other recording, nor by the garbage collector.

    A capture fails if another thread waits for the whole device, as beginning and ending a capture
    may, or if an object that the collector frees gives its memory back to the device meanwhile.
    """
    with _RECORDING:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()
