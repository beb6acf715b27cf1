"""What a family does on a device besides steps."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from ttscommon.engine.device.device import HostDevice
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.qwen3_tts.family import Qwen3Tts


class Beside(HostDevice):
    """Knows whether what is computed would wait for steps."""

    inside = False

    @contextmanager
    def aside(self) -> Iterator[object]:
        self.inside = True
        yield self
        self.inside = False


@pytest.mark.parametrize("what", ["derive", "hear"])
def test_recordings_are_read_beside_the_steps(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the default stream, they were of no order with what had been sent before."""
    device, found = Beside(), list[bool]()

    def derive(self: Qwen3Tts, recording: bytes) -> Arrays:
        found.append(device.inside)
        return {}

    monkeypatch.setattr(Qwen3Tts, "derive", derive)
    family = tiny()
    served = ServedFamily(family)
    getattr(served, what)(b"")
    family.compute_on(device)
    getattr(served, what)(b"")
    assert found == [False, True]
