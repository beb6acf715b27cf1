"""State on the device changes where the host wrote, and nowhere else."""

import numpy as np

from tests.late import Late
from ttscommon.engine.device.device import Device, HostDevice
from ttscommon.engine.device.transfer import Buffers
from ttscommon.wire.fields import Field
from ttsfamilies.base.runners.resident import ResidentState

FIELDS = {
    "codes": Field((3,), "i2"),
    "text": Field((9,), "i4"),
    "frame": Field((), "i8"),
    "warm": Field((), "f4"),
}


def state(device: Device | None = None) -> ResidentState:
    device = device or HostDevice()
    return ResidentState(FIELDS, 4, device, Buffers(device))


def test_a_write_arrives_with_the_flush_and_leaves_what_the_device_moved_on_elsewhere() -> None:
    resident = state()
    tensors = resident.tensors
    tensors["codes"] += 3
    tensors["frame"] += 10
    write = resident.writer(2)
    write("codes", [1, 2, 3])
    write("warm", 0.5)
    write("text", np.array([7, 8]), 4)
    assert tensors["codes"].eq(3).all()
    assert resident.flush()
    moved = [3, 3, 3]
    assert tensors["codes"].tolist() == [moved, moved, [1, 2, 3], moved, moved]
    assert tensors["warm"].tolist() == [0, 0, 0.5, 0, 0]
    assert tensors["text"].tolist()[2] == [0, 0, 0, 0, 7, 8, 0, 0, 0]
    assert tensors["frame"].tolist() == [10] * 5
    assert resident.flush() == []


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
