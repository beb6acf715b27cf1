"""Goldens of CSM and Mimi.

transformers' own models and generation loop; draws take the goldens' noise. Earlier versions of
transformers leave out the window of Mimi's transformers, with which it was trained.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import CsmForConditionalGeneration

from tests.parity.csm_cases import CASES, CODEBOOKS, SPEED_FRAMES, Case, codes
from tests.parity.material import gumbel, pcm
from tests.parity.reference.draws import keyed_noise

FRAME_SAMPLES = 1920
BEGIN, END, AUDIO, AUDIO_END = 128_000, 128_001, 128_002, 128_003

Speaker = Callable[[int], tuple[int, float]]


@cache
def model_of(folder: Path) -> Any:
    """The reference."""
    return CsmForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


def floats(recording: Any) -> torch.Tensor:
    """[1, 1, samples]."""
    return torch.from_numpy(recording.astype(np.float32) / 32_768)[None, None]


def prompt(folder: Path, case: Case) -> dict[str, Any]:
    """As the processor builds it of the model's chat template."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def said(speaker: int, text: str) -> list[int]:
        ids = tokenizer.encode(f"[{speaker}]{text}", add_special_tokens=False).ids
        return [BEGIN, *ids, END]

    ids: list[int] = []
    sounds: list[torch.Tensor] = []
    for turn in case.turns:
        ids += said(turn.speaker, turn.text)
        if (sound := turn.sound()) is not None:
            sounds.append(floats(sound))
            ids += [AUDIO] * -(-len(sound) // FRAME_SAMPLES) + [AUDIO_END]
    whole = torch.tensor([ids + said(case.speaker, case.text)])
    # Otherwise positions of sound, whose id is that of padding as well, are left out.
    found: dict[str, Any] = {"input_ids": whole, "attention_mask": torch.ones_like(whole)}
    if sounds:
        ends = np.cumsum([sound.shape[-1] for sound in sounds])
        found["input_values"] = torch.cat(sounds, -1)
        found["input_values_cutoffs"] = torch.tensor(ends)[None]
    return found


def drawing(case: Case) -> dict[str, Any]:
    """Settings of both parts, in the reference's terms."""
    found: dict[str, Any] = {}
    for part, i in (("", 0), ("depth_decoder_", 1)):
        sampled = case.temperature[i] > 0
        found[f"{part}do_sample"] = sampled
        if sampled:
            found[f"{part}temperature"] = case.temperature[i]
            found |= {f"{part}top_k": case.top_k[i], f"{part}top_p": case.top_p[i]}
    return found


def generated(folder: Path, case: Case) -> dict[str, Any]:
    """The prompt, and the frames that follow it, that of the end included."""
    asked = prompt(folder, case)

    def noise(draw: int, count: int) -> Any:
        return gumbel(case.seed, *divmod(draw, CODEBOOKS), count)

    with keyed_noise(noise), torch.inference_mode():
        found = model_of(folder).generate(
            **asked, max_new_tokens=case.frames, pad_token_id=AUDIO, **drawing(case)
        )
    return {"prompt": asked["input_ids"][0].tolist(), "codes": found[0].tolist()}


def speaker(folder: Path) -> Speaker:
    """See speed.py."""
    case = Case("speed", temperature=(0.9, 0.9))
    model, asked = model_of(folder), prompt(folder, case)

    def speak(count: int) -> tuple[int, float]:
        batch = {name: tensor.expand(count, -1) for name, tensor in asked.items()}
        began_s = time.perf_counter()
        found = model.generate(
            **batch, max_new_tokens=SPEED_FRAMES, pad_token_id=AUDIO, **drawing(case)
        )
        return found.shape[0] * found.shape[1], time.perf_counter() - began_s

    return speak


def sounds(folder: Path) -> dict[str, Any]:
    """Samples of the codec's codes, and codes of a recording."""
    codec = model_of(folder).codec_model
    with torch.inference_mode():
        ids = torch.from_numpy(codes().T[None].astype(np.int64))
        samples = codec.decode(ids).audio_values[0, 0]
        heard = codec.encode(floats(pcm(2.1, 4))).audio_codes[0].T
    return {"samples": samples.numpy(), "heard": heard.numpy().astype(np.int16)}


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    found = {case.name: generated(checkpoints / case.checkpoint, case) for case in CASES}
    (goldens / "csm.json").write_text(json.dumps(found) + "\n", "utf-8")
    np.savez_compressed(goldens / "mimi.npz", **sounds(checkpoints / "csm"))
    print({name: len(case["codes"]) for name, case in found.items()})
