"""Adapters in PEFT's format, drawn: what tests load, upload and damage."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from ttscommon.cluster.adapters.peft import CONFIG, WEIGHTS, Files

# Outputs and inputs of a published module.
Sizes = Mapping[str, tuple[int, int]]


def config(rank: int = 8, **more: Any) -> dict[str, Any]:
    """As PEFT writes it, as far as it counts."""
    return {
        "peft_type": "LORA",
        "base_model_name_or_path": "somewhere",
        "r": rank,
        "lora_alpha": 16,
        "use_rslora": False,
        "bias": "none",
        "init_lora_weights": True,
        "target_modules": "all-linear",
        "rank_pattern": {},
        "alpha_pattern": {},
        **more,
    }


def tensors(
    sizes: Sizes, rank: int = 8, *, seed: int = 0, loud: float = 1.0
) -> dict[str, np.ndarray]:
    """Both halves of every module. loud: how much of its output they add."""
    drawn = np.random.default_rng(seed)
    found = {}
    for name, (outputs, inputs) in sizes.items():
        low = drawn.standard_normal((rank, inputs)).astype(np.float32) * inputs**-0.5
        high = drawn.standard_normal((outputs, rank)).astype(np.float32) * loud * rank**-0.5
        found[f"base_model.model.{name}.lora_A.weight"] = low
        found[f"base_model.model.{name}.lora_B.weight"] = high
    return found


def files(sizes: Sizes, rank: int = 8, *, seed: int = 0, loud: float = 1.0, **more: Any) -> Files:
    weights = save(tensors(sizes, rank, seed=seed, loud=loud))
    return Files.of(json.dumps(config(rank, **more)).encode(), weights)


def write(folder: Path, content: Files) -> Path:
    folder.mkdir(parents=True)
    (folder / CONFIG).write_bytes(content.config)
    (folder / WEIGHTS).write_bytes(content.weights)
    return folder
