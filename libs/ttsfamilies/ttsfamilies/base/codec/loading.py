"""A deployment's wishes for the loading of a codec, for every family's `loading.load`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ttsfamilies.base.codec.room import DeviceLimits

if TYPE_CHECKING:
    from ttscommon.engine.device.device import Device


@dataclass(frozen=True)
class CodecOptions:
    """windows: frames decoded together and left context, for families that can be windowed; None
    carries exact state. device: None is the CPU. room: of a device. memory_bytes: for states that
    grow with their streams. tensor_cores: see VocoderSettings, for families that can.
    """

    windows: tuple[int, int] | None = None
    device: Device | None = None
    room: DeviceLimits = field(default_factory=DeviceLimits)
    memory_bytes: int = 4 << 30
    tensor_cores: bool = False

    @property
    def where(self) -> str:
        """The device's name for torch."""
        return "cpu" if self.device is None else str(self.device.where)
