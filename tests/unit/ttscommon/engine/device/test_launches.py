"""Arrays on their way to a device and back; jobs by shape, recorded or not, give the same."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.late import Late
from ttscommon.engine.device.device import Device, HostDevice
from ttscommon.engine.device.launches import Computed, InputShapes, Launches
from ttscommon.engine.device.transfer import Buffers, DeviceResult, Inputs
from ttscommon.wire.fields import Arrays


def told(rows: int) -> InputShapes:
    return {"n": ((rows,), "i8")}


def nothing(rows: int) -> Arrays:
    return {"n": np.zeros(rows, np.int64)}


def squares(told: Mapping[str, Tensor], rows: int) -> Mapping[str, Tensor]:
    assert len(told["n"]) == rows
    return {"square": told["n"] ** 2}


def launches(device: Device) -> Launches[int]:
    return Launches(device, Buffers(device), Computed(told, nothing, squares))


@pytest.mark.parametrize("device", [HostDevice, Late])
@pytest.mark.parametrize("recorded", [True, False])
def test_each_launch_brings_back_its_own_rows(device: type[Device], recorded: bool) -> None:
    of = launches(device())
    if recorded:
        of.recorded(4)
    flying = [of.launch(4, {"n": np.array([n, n + 1])}, 2) for n in (1, 5, 7)]
    assert [fetch.wait()["square"].tolist() for fetch, _ in flying] == [[1, 4], [25, 36], [49, 64]]
    assert {path for _, path in flying} == {"graph" if recorded else "eager"}
    assert of.knows(4) == recorded, "a launch records nothing"


def test_buffers_are_used_again() -> None:
    buffers = Buffers(HostDevice())
    one, other = buffers.take(8), buffers.take(8)
    assert one.data_ptr() != other.data_ptr()
    buffers.give_back([one])
    assert buffers.take(8).data_ptr() == one.data_ptr()
    assert buffers.take(16).numel() == 16


def test_inputs_arrive_with_zeros_behind_them() -> None:
    device = HostDevice()
    inputs = Inputs(device, Buffers(device), {"ids": ((4, 2), "i4"), "here": ((3,), "?")})
    inputs.fill({"ids": np.full((4, 2), 9), "here": np.ones(3)})
    inputs.fill({"ids": np.array([[1, 2]]), "here": np.array([True])})
    assert inputs.tensors["ids"].tolist() == [[1, 2], [0, 0], [0, 0], [0, 0]]
    assert inputs.tensors["ids"].dtype == torch.int32
    assert inputs.tensors["here"].tolist() == [True, False, False]


def test_rows_of_every_type_come_back_as_they_were() -> None:
    g = torch.Generator().manual_seed(0)
    tensors = {
        "codes": torch.randint(0, 9, (3, 2, 16), generator=g).to(torch.int16),
        "hidden": torch.randn(3, 1, 5, generator=g).bfloat16(),
        "ended": torch.tensor([True, False, True]),
        "gained": torch.tensor([0, 1, 2]),
    }
    result = DeviceResult()
    back = result.unpacked(result.packed(tensors).numpy())
    assert back["hidden"].dtype == np.float32
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(back[name], tensor.float().numpy())
