"""Jobs by shape: recorded or not, they give the same."""

from collections.abc import Mapping

import numpy as np
import pytest
from torch import Tensor

from tests.late import Late
from ttscommon.engine.device.device import Device, HostDevice
from ttscommon.engine.device.launches import Computed, InputShapes, Launches
from ttscommon.engine.device.transfer import Buffers
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


def test_a_launch_records_nothing_and_what_was_recorded_is_known() -> None:
    of = launches(Late())
    assert of.launch(2, nothing(2), 2)[1] == "eager"
    assert not of.knows(2)
    of.recorded(2)
    assert of.launch(2, nothing(2), 2)[1] == "graph"
    assert of.knows(2)
    assert not of.knows(4)
    assert of.recorded(2) is of.recorded(2)


def test_what_ran_at_once_may_be_recorded_later() -> None:
    of = launches(HostDevice())
    assert of.launch(2, nothing(2), 2)[1] == "eager"
    of.recorded(2)
    fetch, path = of.launch(2, {"n": np.array([3])}, 1)
    assert (fetch.wait()["square"].tolist(), path) == ([9], "graph")
