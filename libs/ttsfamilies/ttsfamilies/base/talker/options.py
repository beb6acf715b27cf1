"""A deployment's settings for the loading of a model, for every family's `load`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ttscommon.engine.device.device import Device


LEXICON: Final = Path("voices/vesper")


@dataclass(frozen=True)
class ModelOptions:
    """pads: late text is padded instead of waited for, by families that can. device: None is the
    CPU. lexicon: the folder of the English lexicon, for voices that bring none. codec: the folder
    of the codec, where that is published by itself, for families whose talker encodes recordings
    with it.
    """

    pads: bool = False
    device: Device | None = None
    lexicon: Path = LEXICON
    codec: Path | None = None

    @property
    def where(self) -> str:
        """Where weights go, as torch names it."""
        return "cpu" if self.device is None else str(self.device.where)

    @property
    def dtype(self) -> str:
        """Of a published checkpoint's weights: exact on the CPU, as published on a device."""
        return "float32" if self.device is None else "bfloat16"


ON_CPU: Final = ModelOptions()
