"""Stage 6: the voice folder: weights as safetensors and the config that vouches for them."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from talker.models.cantor_net import CantorNet
from ttscommon.voice import CONFIG_NAME, FORMAT, sha256_of
from vocoder.codecs.cantor_net import FRAME_SAMPLES, SAMPLE_RATE, CantorDecoder

NAME = "cantor"
LANGUAGE = "en-US"
VOICE_NAMES = {"slt": "SLT", "rms": "RMS", "awb": "AWB"}
SAMPLING: dict[str, Any] = {
    "temperature": 0.6,
    "top_k": 50,
    "advance_temperature": 0.85,
    "residual_temperature": 0.3,
    "max_frames_per_phone": 25,
}


def _half(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: w.detach().to(torch.float16).contiguous() for name, w in weights.items()}


def export_voice(
    net: CantorNet, decoder: CantorDecoder, folder: Path, sampling: dict[str, Any] | None = None
) -> None:
    """Write the weights (float16) and config.json; what else is in the folder stays."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {}
    for part, module in (("talker", net), ("vocoder", decoder)):
        path = folder / f"{part}.safetensors"
        save_file(_half(module.state_dict()), path)
        path.chmod(0o644)
        weights[part] = {"file": path.name, "sha256": sha256_of(path)}
    config = {
        "format": FORMAT,
        "name": NAME,
        "family": NAME,
        "sample_rate": SAMPLE_RATE,
        "frame_rate_hz": SAMPLE_RATE / FRAME_SAMPLES,
        "codebooks": decoder.config.codebooks,
        "voices": [
            {"id": voice, "name": name, "language": LANGUAGE} for voice, name in VOICE_NAMES.items()
        ],
        "sampling": sampling or SAMPLING,
        "talker": asdict(replace(net.config, dropout=0.0)),
        "codec": asdict(decoder.config),
        "weights": weights,
    }
    (folder / CONFIG_NAME).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
