"""Goldens of Orpheus.

transformers' Llama with its own penalty, temperature, top-k and top-p; the allowed ids of each step
are a logits processor, and draws take the goldens' noise.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM, LogitsProcessor, LogitsProcessorList

from tests.parity.material import gumbel
from tests.parity.orpheus_cases import CASES, SPEED, SPEED_TOKENS, Case
from tests.parity.reference.draws import keyed_noise

CODES, SLOTS, FIRST, END = 4096, 7, 128_266, 128_258


def allowed(step: int) -> torch.Tensor:
    """Ids that may be drawn at a step, in the order of its noise."""
    first = FIRST + step % SLOTS * CODES
    codes = torch.arange(first, first + CODES)
    return codes if step % SLOTS else torch.cat((codes, torch.tensor([END])))


class Mask(LogitsProcessor):  # type: ignore[misc]
    """Leaves the ids of the step's slot."""

    def __init__(self, before: int) -> None:
        self._before = before

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        kept = torch.full_like(scores, float("-inf"))
        ids = allowed(input_ids.shape[1] - self._before)
        kept[:, ids] = scores[:, ids]
        return kept


def prompt(folder: Path, case: Case) -> list[int]:
    """As the package builds it."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    said = tokenizer.encode(f"{case.voice}: {case.text}", add_special_tokens=False).ids
    return [128_259, 128_000, *said, 128_009, 128_260, 128_261, 128_257]


def generated(folder: Path, case: Case) -> dict[str, list[int]]:
    """The prompt, and the ids that follow it."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = prompt(folder, case)
    drawing: dict[str, Any] = {"do_sample": False}
    if case.temperature:
        drawing = {"do_sample": True, "temperature": case.temperature}
        drawing |= {"top_k": case.top_k, "top_p": case.top_p}

    def noise(step: int, count: int) -> Any:
        """Nothing else has a weight."""
        found, own = np.zeros(count, np.float32), allowed(step).numpy()
        found[own] = gumbel(case.seed, step, 0, CODES + 1)[: len(own)]
        return found

    with keyed_noise(noise), torch.inference_mode():
        found = model.generate(
            torch.tensor([ids]),
            logits_processor=LogitsProcessorList([Mask(len(ids))]),
            repetition_penalty=case.penalty,
            max_new_tokens=case.tokens,
            eos_token_id=END,
            pad_token_id=END,
            **drawing,
        )
    return {"prompt": ids, "ids": found[0, len(ids) :].tolist()}


def speaker(folder: Path) -> Callable[[int], tuple[int, float]]:
    """See speed.py. Without a mask: the reference draws from its whole vocabulary."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    asked = torch.tensor([prompt(folder, SPEED)])

    def speak(count: int) -> tuple[int, float]:
        batch = asked.expand(count, -1)
        began_s = time.perf_counter()
        found = model.generate(
            batch,
            attention_mask=torch.ones_like(batch),
            do_sample=True,
            temperature=SPEED.temperature,
            top_k=SPEED.top_k,
            top_p=SPEED.top_p,
            repetition_penalty=SPEED.penalty,
            max_new_tokens=SPEED_TOKENS,
            eos_token_id=END,
            pad_token_id=END,
        )
        took_s = time.perf_counter() - began_s
        return count * (found.shape[1] - batch.shape[1]) // SLOTS, took_s

    return speak


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    found = {c.name: generated(checkpoints / c.checkpoint, c) for c in CASES}
    (goldens / "orpheus.json").write_text(json.dumps(found) + "\n", "utf-8")
    print({name: len(case["ids"]) for name, case in found.items()})
