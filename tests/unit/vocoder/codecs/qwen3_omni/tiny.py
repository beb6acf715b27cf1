"""code2wav small enough for tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from antiphon_bench.synthetic.qwen3_omni import write_checkpoint
from ttscommon.engine.device.device import Device
from vocoder.codecs.base import Codec
from vocoder.codecs.qwen3_omni.codec import OmniCodec, OmniCodecOnDevice
from vocoder.codecs.qwen3_omni.net import LaggingDecoder, load_decoder
from vocoder.codecs.room import DeviceLimits


@cache
def _net() -> LaggingDecoder:
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=1, codebooks=4)
        return load_decoder(Path(folder))


@cache
def tiny() -> Codec:
    return OmniCodec("m", _net())


def tiny_on(device: Device, room: DeviceLimits) -> Codec:
    return OmniCodecOnDevice("m", _net(), device, room)
