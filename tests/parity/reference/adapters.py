"""Goldens of adapters: PEFT's own, trained names and merged weights, in the official package.

Runs where `official` and peft 0.21.2 are installed. Writes the adapters as PEFT saves them, and the
codes and states of a case with each of them merged.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model

from tests.parity.cases import ADAPTED, ADAPTERS, AdapterCase
from tests.parity.reference.official import load
from tests.parity.reference.talker import Arrays, recorded, speak


def write(checkpoints: Path, folder: Path) -> None:
    """adapters.npz and a folder for each adapter."""
    found: Arrays = {}
    for case in ADAPTERS:
        official = load(checkpoints / ADAPTED.checkpoint)
        merge(official.model, case, folder / "adapters" / case.name)
        with recorded(official.model) as kept:
            speak(official, ADAPTED)
        codes, hidden = kept[0]
        found[f"{case.name}/codes"] = codes[0].numpy().astype(np.int16)
        found[f"{case.name}/hidden"] = hidden[0].numpy()
        print(f"{case.name}: {len(codes[0])} frames")
    np.savez_compressed(folder / "adapters.npz", **found)


def merge(model: torch.nn.Module, case: AdapterCase, folder: Path) -> None:
    """Adapt what the case has in hand, save that as PEFT does, and merge it into the weights."""
    torch.manual_seed(case.seed)
    part = model if case.root == "" else model.get_submodule(case.root)
    config = LoraConfig(**case.config, init_lora_weights=False)
    adapted = get_peft_model(part, config)
    adapted.save_pretrained(str(folder))
    (folder / "README.md").unlink(missing_ok=True)  # a card to be filled in
    adapted.merge_and_unload()
