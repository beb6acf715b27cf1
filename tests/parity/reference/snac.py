"""Goldens of SNAC.

The published package with the weights of a synthetic codec; its noise is replaced by ours to give.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import load_file
from snac import SNAC

from tests.parity.orpheus_cases import codes, noise

LEVELS = ((0,), (1, 4), (2, 3, 5, 6))


def write(checkpoints: Path, goldens: Path) -> None:
    """Decode the material in one shot."""
    folder = checkpoints / "snac"
    model = SNAC.from_config(folder / "config.json").eval()
    missing, surplus = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    assert not surplus
    assert all(name.startswith("encoder.") or "in_proj" in name for name in missing)
    drawn = codes()
    rows = [torch.from_numpy(drawn[:, list(slots)].reshape(1, -1)).long() for slots in LEVELS]
    block = 0

    def randn(size: tuple[int, ...], **_: Any) -> torch.Tensor:
        nonlocal block
        block += 1
        return torch.from_numpy(noise(block - 1, size[-1])).view(1, 1, -1)

    with patch.object(torch, "randn", randn), torch.inference_mode():
        samples = model.decode(rows)[0, 0]
    np.savez_compressed(goldens / "snac.npz", samples=samples.numpy())
    print(samples.shape, float(samples.abs().max()), float(samples.std()))
