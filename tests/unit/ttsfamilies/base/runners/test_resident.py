"""State on the device changes where the host wrote, and nowhere else."""

import numpy as np
import torch

from tests.late import Late
from ttscommon.engine.device.device import Device, HostDevice
from ttscommon.engine.device.transfer import Buffers
from ttscommon.wire.fields import Field
from ttsfamilies.base.runners.state import ResidentState

FIELDS = {
    "codes": Field((3,), "i2"),
    "text": Field((9,), "i4"),
    "frame": Field((), "i8"),
    "warm": Field((), "f4"),
}


def state(device: Device | None = None) -> ResidentState:
    device = device or HostDevice()
    return ResidentState(FIELDS, 4, device, Buffers(device))


def test_every_field_has_a_row_a_slot_and_one_for_padding() -> None:
    tensors = state().tensors
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "codes": (5, 3),
        "text": (5, 9),
        "frame": (5,),
        "warm": (5,),
    }
    assert tensors["codes"].dtype == torch.int16


def test_what_was_written_arrives_with_the_flush() -> None:
    resident = state()
    write = resident.writer(2)
    write("codes", [1, 2, 3])
    write("warm", 0.5)
    write("text", np.array([7, 8]), 4)
    assert not resident.tensors["codes"].any()
    assert resident.flush()
    assert resident.tensors["codes"].tolist()[2] == [1, 2, 3]
    assert resident.tensors["warm"].tolist() == [0, 0, 0.5, 0, 0]
    assert resident.tensors["text"].tolist()[2] == [0, 0, 0, 0, 7, 8, 0, 0, 0]
    assert resident.flush() == []


def test_a_write_leaves_what_the_device_moved_on_in_other_fields_and_slots() -> None:
    resident = state()
    resident.writer(1)("frame", 5)
    resident.flush()
    resident.tensors["frame"] += 10
    resident.tensors["codes"] += 3
    resident.writer(1)("text", [4], 8)
    resident.writer(1)("warm", 2.0)
    resident.flush()
    assert resident.tensors["frame"].tolist() == [10, 15, 10, 10, 10]
    assert resident.tensors["codes"].tolist()[1] == [3, 3, 3]
    assert resident.tensors["text"].tolist()[1][8] == 4


def test_flushes_in_flight_do_not_mix() -> None:
    device = Late()
    resident = state(device)
    seen = []
    for frame in (1, 2, 3):
        resident.writer(0)("frame", frame)
        resident.flush()
        device.submit(lambda: seen.append(int(resident.tensors["frame"][0])))
    device.mark().wait()
    assert seen == [1, 2, 3]
