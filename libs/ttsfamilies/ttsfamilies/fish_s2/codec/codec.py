"""Fish Audio S2's codec in the engine: exact state is carried for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from ttscommon.engine.device.device import Device
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.carrying import TOLERANCE, CarryingCodec, CarryingOnDevice
from ttsfamilies.base.codec.reach import tail_frames
from ttsfamilies.base.codec.room import DeviceLimits
from ttsfamilies.fish_s2.codec.net import FishDecoder, load_decoder


class FishCodec(CarryingCodec):
    """A loaded decoder, on the CPU."""

    def __init__(self, name: str, net: FishDecoder) -> None:
        super().__init__(net, spec_of(name, net))

    @classmethod
    def load(cls, name: str, folder: Path) -> Self:
        """Read the folder of a talker that holds it; raises CheckpointError."""
        return cls(name, load_decoder(folder))


class FishOnDevice(CarryingOnDevice):
    """A loaded decoder, whose weights are on the device."""

    def __init__(self, name: str, net: FishDecoder, device: Device, room: DeviceLimits) -> None:
        super().__init__(net, spec_of(name, net), device, room)

    @classmethod
    def load(cls, name: str, folder: Path, device: Device, room: DeviceLimits) -> Self:
        """As FishCodec.load; raises CheckpointError."""
        return cls(name, load_decoder(folder, str(device.where)), device, room)


def spec_of(name: str, net: FishDecoder) -> CodecSpec:
    """What the engine has to know of a decoder. Its talker draws ids beyond its codes.

    Each layer looks one window back; the convolutions behind them reach back further.
    """
    c = net.sizes
    return CodecSpec(
        name,
        "fish_s2",
        c.sample_rate,
        c.frame_samples,
        {"codes": Field((c.codebooks,), "i2")},
        context_frames=c.layers * (c.window - 1) + tail_frames(c.ratios, c.rates),
        tolerance=TOLERANCE,
    )
