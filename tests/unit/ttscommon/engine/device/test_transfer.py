"""Arrays on their way to a device and back."""

from functools import partial

import numpy as np
import torch

from tests.late import Late
from ttscommon.engine.device.device import HostDevice
from ttscommon.engine.device.transfer import Buffers, DeviceResult, Fetch, Inputs, Packed


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


def test_a_filled_buffer_stays_as_it_is_until_it_was_read() -> None:
    device = Late()
    buffers = Buffers(device)
    inputs = Inputs(device, buffers, {"n": ((1,), "i8")})
    seen = []
    for n in (1, 2):
        inputs.fill({"n": np.array([n])})
        device.submit(lambda: seen.append(int(inputs.tensors["n"][0])))
    device.mark().wait()
    assert seen == [1, 2]


def test_rows_of_every_type_come_back_as_they_were() -> None:
    g = torch.Generator().manual_seed(0)
    tensors = {
        "codes": torch.randint(0, 9, (3, 2, 16), generator=g).to(torch.int16),
        "hidden": torch.randn(3, 1, 5, generator=g).bfloat16(),
        "ended": torch.tensor([True, False, True]),
        "gained": torch.tensor([0, 1, 2]),
    }
    packed = Packed.of(tensors)
    back = packed.unpack(packed.pack(tensors).numpy())
    assert back["hidden"].dtype == np.float32
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(back[name], tensor.float().numpy())


def test_a_fetched_result_is_that_of_its_own_launch() -> None:
    device, result = Late(), DeviceResult()
    buffers = Buffers(device)

    def compute(n: int) -> None:
        result.out = result.packed({"n": torch.full((4,), n)})

    fetches = []
    for n in (1, 2, 3):
        device.submit(partial(compute, n))
        fetches.append(Fetch(device, buffers, result, rows=2))
    assert [fetch.wait()["n"].tolist() for fetch in fetches] == [[1, 1], [2, 2], [3, 3]]
