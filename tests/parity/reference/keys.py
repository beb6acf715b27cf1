"""Names and shapes of whole checkpoints, asked of the official classes on the meta device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tests.parity.material import pattern
from tests.parity.reference.official import (
    Qwen3TTSConfig,
    Qwen3TTSForConditionalGeneration,
    Qwen3TTSTokenizerV2Config,
    Qwen3TTSTokenizerV2Model,
)


def goldens(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """By name of a config, what its checkpoint holds."""
    found: dict[str, Any] = {}
    for name, config in configs.items():
        with torch.device("meta"):
            model = build(config)
        shapes = {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}
        total = sum(p.numel() for p in model.parameters())
        found[name] = {"tensors": len(shapes), "parameters": total, "shapes": pattern(shapes)}
    return found


def build(config: Mapping[str, Any]) -> torch.nn.Module:
    """The official class of a config.json."""
    if config["model_type"] == "qwen3_tts":
        return Qwen3TTSForConditionalGeneration(Qwen3TTSConfig(**config))
    return Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**config))


def read(folder: Path) -> dict[str, Any]:
    """Config files of full size, written next to the checkpoints."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.iterdir())}
