"""Codec families: a package each, found by what a folder's files say of themselves."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ttscommon.engine.checkpoint import find_checkpoint
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.known import FAMILIES


def load(
    name: str,
    path: Path,
    windows: tuple[int, int] | None = None,
    *,
    device: str = "cpu",
    limits: DeviceLimits = DeviceLimits(),  # noqa: B008
    memory_bytes: int = CodecOptions.memory_bytes,
    tensor_cores: bool = False,
) -> Codec:
    """The codec of a voice folder, of a published checkpoint, or by itself, as model `name`.

    windows, limits, memory_bytes, tensor_cores: see CodecOptions. device: "cpu", "cuda" or
    "cuda:1". Torch is imported only for families that use it. Raises VoiceError, which for an
    unknown family lists the known ones, or DeviceError.
    """
    from ttscommon.engine.device.device import device_of
    from ttsfamilies.base.codec.kernels.trials import CONVOLUTION, TRIALS

    where = device_of(device, trials=(*TRIALS, CONVOLUTION) if tensor_cores else TRIALS)
    codec, folder = FAMILIES.codec_of(find_checkpoint(str(path)))
    options = CodecOptions(windows, where, limits, memory_bytes, tensor_cores)
    return import_module(f"{codec.home}.codec").load(name, folder, options)
