"""Mimi in the engine, on the CPU and on a device: exact state is carried for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from ttscommon.engine.device.device import Device
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.carrying import TOLERANCE, CarryingCodec, CarryingOnDevice
from ttsfamilies.base.codec.room import DeviceLimits
from ttsfamilies.csm.mimi import kyutai
from ttsfamilies.csm.mimi.config import context_frames
from ttsfamilies.csm.mimi.net import MimiDecoder, load_decoder


class Mimi(CarryingCodec):
    """A loaded decoder, on the CPU."""

    def __init__(self, name: str, net: MimiDecoder) -> None:
        super().__init__(net, spec_of(name, net))

    @classmethod
    def load(cls, name: str, folder: Path) -> Self:
        """Read the folder of a codec, or of a talker that holds it; raises CheckpointError."""
        return cls(name, _read(folder))


class MimiOnDevice(CarryingOnDevice):
    """A loaded decoder, whose weights are on the device."""

    def __init__(self, name: str, net: MimiDecoder, device: Device, room: DeviceLimits) -> None:
        super().__init__(net, spec_of(name, net), device, room)

    @classmethod
    def load(cls, name: str, folder: Path, device: Device, room: DeviceLimits) -> Self:
        """As Mimi.load; raises CheckpointError."""
        return cls(name, _read(folder, str(device.where)), device, room)


def _read(folder: Path, device: str = "cpu") -> MimiDecoder:
    """Of either kind of file; raises CheckpointError."""
    load = kyutai.load_decoder if kyutai.holds(folder) else load_decoder
    return load(folder, device)


def spec_of(name: str, net: MimiDecoder) -> CodecSpec:
    """What the engine has to know of a decoder. Talkers have ids of their own beyond its codes."""
    c = net.sizes
    return CodecSpec(
        name,
        "mimi",
        c.sampling_rate,
        c.frame_samples,
        {"codes": Field((c.num_quantizers,), "i2")},
        context_frames=context_frames(c),
        tolerance=TOLERANCE,
    )
