"""Model families: found by the family that a voice's or a checkpoint's config names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from talker.family.leniency import Leniency
from ttscommon.engine.checkpoint import find_checkpoint, is_checkpoint
from ttscommon.engine.voice import load_voice
from ttscommon.wire.errors import UnknownModel

if TYPE_CHECKING:
    from talker.runners.model import TalkerModel
    from ttscommon.engine.device.device import Device

# Before a vocoder on the same GPU: steps are short, and every stream waits for them.
_PRIORITY: Final = -1


def load(
    name: str,
    path: Path,
    *,
    pads: bool = False,
    device: str = "cpu",
    leniency: Leniency = Leniency(),  # noqa: B008
) -> TalkerModel:
    """Load a voice folder or a published checkpoint, by folder or hub name, as model `name`.

    pads: see Qwen3Tts. device: "cpu", "cuda" or "cuda:1"; checkpoints run in bfloat16 on a GPU.
    leniency: with models that draft frames, on the CPU. Raises VoiceError, UnknownModel or
    DeviceError. torch is imported only for families that use it.
    """
    from ttscommon.engine.device.device import device_of

    where = device_of(device, _PRIORITY)
    model = _load(name, path, pads=pads, device=where, leniency=leniency)
    model.compute_on(where)
    return model


def _load(
    name: str, path: Path, *, pads: bool, device: Device | None, leniency: Leniency
) -> TalkerModel:
    if is_checkpoint(path):
        from talker.models.qwen3_tts.family import Qwen3Tts

        checkpoint, told = find_checkpoint(str(path)), {"device": "cpu", "dtype": "float32"}
        if device is not None:
            told = {"device": str(device.where), "dtype": "bfloat16"}
        return Qwen3Tts.load(name, checkpoint, pads=pads, **told)
    voice = load_voice(path)
    if voice.family == "vesper":
        from talker.models.vesper.family import Vesper

        return Vesper.load(name, voice, "cpu" if device is None else str(device.where), leniency)
    raise UnknownModel(f"there is no model family {voice.family!r}", param="model")
