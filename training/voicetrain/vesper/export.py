"""Stage: the voice folder: weights as safetensors, lexicon, notice, and the config."""

import json
import shutil
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor

from ttscommon.engine.voice import CONFIG_NAME, FORMAT, sha256_of
from ttsfamilies.base.text.lexicon import FILE_NAME
from ttsfamilies.vesper.codec.layers import SAMPLE_RATE
from ttsfamilies.vesper.codec.net import CODEBOOKS, FRAME_SAMPLES, VesperDecoder
from ttsfamilies.vesper.net import VesperNet
from ttsfamilies.vesper.stream import VesperSampling

NAME: Final = "vesper"
LANGUAGE: Final = "en-US"
GENDER: Final = "female"
NOTICE: Final = "NOTICE.txt"

PRESETS: Final[dict[str, dict[str, float]]] = {
    "vesper": {"pace": 1.0, "level": 0.0, "span": 1.0},
    "vesper-low": {"pace": 1.0, "level": -0.11, "span": 1.0},
    "vesper-high": {"pace": 1.0, "level": 0.1, "span": 1.0},
    "vesper-lively": {"pace": 1.06, "level": 0.02, "span": 1.35},
    "vesper-calm": {"pace": 0.92, "level": -0.02, "span": 0.75},
}
"""pace: speed; level: change of log pitch; span: factor on the pitch's range."""

SPEEDS: Final = (0.7, 1.4)
"""What a request may ask for on top of a preset's pace: measured, see the evaluation's paces."""


def export_voice(
    net: VesperNet,
    decoder: VesperDecoder,
    lexicon: Path,
    folder: Path,
    sampling: VesperSampling | None = None,
) -> None:
    """Write a voice folder; what else is in it stays. lexicon: the folder that has one."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {}
    for part, module in (("talker", net), ("vocoder", decoder)):
        path = folder / f"{part}.safetensors"
        save_file(_stored(module.state_dict()), path)
        path.chmod(0o644)
        weights[part] = {"file": path.name, "sha256": sha256_of(path)}
    if lexicon.resolve() != folder.resolve():
        shutil.copyfile(lexicon / FILE_NAME, folder / FILE_NAME)
    notice = resources.files("voicetrain").joinpath("data", "vesper-notice.txt")
    (folder / NOTICE).write_text(notice.read_text("utf-8"), "utf-8")
    config: dict[str, Any] = {
        "format": FORMAT,
        "name": NAME,
        "family": NAME,
        "sample_rate": SAMPLE_RATE,
        "frame_rate_hz": SAMPLE_RATE / FRAME_SAMPLES,
        "codebooks": CODEBOOKS,
        "voices": [
            {
                "id": voice,
                "name": voice.replace("-", " ").title(),
                "language": LANGUAGE,
                "gender": GENDER,
            }
            for voice in PRESETS
        ],
        "presets": PRESETS,
        "speeds": SPEEDS,
        "silence": decoder.silence.tolist(),
        "sampling": asdict(sampling or VesperSampling()),
        "talker": asdict(replace(net.config, dropout=0.0)),
        "codec": asdict(decoder.config),
        "weights": weights,
    }
    (folder / CONFIG_NAME).write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _stored(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Numbers as float16, codes as they are."""
    return {
        name: value.detach().to(torch.float16 if value.is_floating_point() else value.dtype)
        .contiguous()
        for name, value in state.items()
    }  # fmt: skip
