"""Codec families: found by the family that a voice's or a checkpoint's config names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttscommon.engine.checkpoint import find_checkpoint, is_checkpoint
from ttscommon.engine.voice import VoiceFolder, load_voice
from ttscommon.wire.errors import UnknownModel
from vocoder.codecs.base import Codec
from vocoder.codecs.room import Room

if TYPE_CHECKING:
    from ttscommon.engine.device.device import Device


def load(
    name: str,
    path: Path,
    windows: tuple[int, int] | None = None,
    *,
    device: str = "cpu",
    room: Room = Room(),  # noqa: B008
) -> Codec:
    """The codec of a voice folder or of a published checkpoint, to be served as model `name`.

    windows: frames decoded together and left context, for families that can be windowed; None
    carries exact state. device: "cpu", "cuda" or "cuda:1". room: of a device. Torch is imported
    only for families that use it. Raises VoiceError, DeviceError, or UnknownModel for a family
    that is not built in.
    """
    from ttscommon.engine.device.device import device_of

    where = device_of(device)
    if is_checkpoint(path):
        return _checkpoint(name, path, windows, where, room)
    voice = load_voice(path)
    if voice.family == "vesper":
        return _vesper(name, voice, where, room)
    raise UnknownModel(f"there is no codec family {voice.family!r}", param="model")


def _checkpoint(
    name: str, path: Path, windows: tuple[int, int] | None, device: Device | None, room: Room
) -> Codec:
    from vocoder.codecs.qwen3_tts.codec import Qwen3Codec
    from vocoder.codecs.qwen3_tts.device import Qwen3DeviceCodec
    from vocoder.codecs.qwen3_tts.stream import Windows

    checkpoint, cut = find_checkpoint(str(path)), windows and Windows(*windows)
    if device is None:
        return Qwen3Codec.load(name, checkpoint, cut)
    return Qwen3DeviceCodec.load(name, checkpoint, device, room, cut)


def _vesper(name: str, voice: VoiceFolder, device: Device | None, room: Room) -> Codec:
    from vocoder.codecs.vesper.codec import Vesper
    from vocoder.codecs.vesper.device import VesperOnDevice

    if device is None:
        return Vesper.load(name, voice)
    return VesperOnDevice.load(name, voice, device, room)
