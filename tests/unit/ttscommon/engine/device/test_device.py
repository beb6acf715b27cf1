"""Devices work in order; a late one only when somebody waits."""

from types import SimpleNamespace

import pytest
import torch

from tests.late import Late
from ttscommon.engine.device import device
from ttscommon.engine.device.device import Cuda, Device, HostDevice, device_of
from ttscommon.engine.inflight import BatchSizes, DeviceError


@pytest.mark.parametrize("where", [HostDevice(), Late()])
def test_what_was_recorded_runs_again_on_new_inputs_into_the_same_place(where: Device) -> None:
    told = torch.zeros(2)
    recorded = where.record(lambda: told * 2)
    out = recorded.out
    where.submit(lambda: told.fill_(3))
    where.submit(recorded.run)
    where.mark().wait()
    assert out.tolist() == [6, 6]
    assert recorded.out is out


def test_a_late_device_does_nothing_before_it_is_waited_for_and_then_no_more_than_needed() -> None:
    late, done = Late(), []
    late.submit(lambda: done.append(1))
    mark = late.mark()
    late.submit(lambda: done.append(2))
    assert done == []
    mark.wait()
    assert done == [1]
    mark.wait()
    late.mark().wait()
    assert done == [1, 2]


def test_the_cpu_needs_no_device() -> None:
    assert device_of("cpu") is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_a_gpu_that_is_not_here_is_an_error_of_the_device() -> None:
    with pytest.raises(DeviceError, match="no CUDA device 0"):
        Cuda()


def test_the_talkers_work_goes_first_where_stages_share_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, tried = list[tuple[int, int]](), list[str]()

    def cuda(index: int, priority: int) -> SimpleNamespace:
        made.append((index, priority))
        return SimpleNamespace(where=f"cuda:{index}")

    monkeypatch.setattr(device, "Cuda", cuda)
    monkeypatch.setattr(device, "kernels_or_twins", lambda where, _: tried.append(where))
    device_of("cuda:1")
    device_of("cuda", -1)
    assert made == [(1, 0), (0, -1)]
    assert tried == ["cuda:1", "cuda:0"], "before anything is computed there"


def test_work_is_padded_to_the_next_size_that_holds_it() -> None:
    buckets = BatchSizes.doubling(24)
    assert buckets.sizes == (1, 2, 4, 8, 16, 24)
    assert [buckets.fit(n) for n in (1, 3, 16, 17, 24, 25)] == [1, 4, 16, 24, 24, None]
    assert BatchSizes.doubling(1).sizes == (1,)
    with pytest.raises(ValueError, match="positive"):
        BatchSizes([0])
