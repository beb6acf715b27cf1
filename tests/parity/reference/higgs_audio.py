"""Goldens of Higgs Audio v2 and its codec.

transformers' own models and generation loop; draws take the goldens' noise.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from tests.parity.material import pcm
from tests.parity.reference.bare import without_libraries

without_libraries()  # what resamples is plain torch
from transformers import (  # noqa: E402
    HiggsAudioV2ForConditionalGeneration,
    HiggsAudioV2TokenizerModel,
    Qwen3Config,
    Qwen3Model,
)

from tests.parity.higgs_audio_cases import (  # noqa: E402
    CASES,
    CODEBOOKS,
    FRAMES,
    HEARD,
    IDS,
    SPEED_FRAMES,
    THIRD,
    Case,
    Said,
    codes,
)
from tests.parity.material import TEXT, gumbel  # noqa: E402

BEGIN, END = IDS - 2, IDS - 1
SOUND, DELAY = "<|AUDIO_OUT|>", "<|reserved_special_token_6|>"
AFTER, FRAME_SAMPLES = CODEBOOKS - 1, 960

Speaker = Callable[[int], tuple[int, float]]


@cache
def model_of(folder: Path) -> Any:
    """The reference."""
    found = HiggsAudioV2ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    return found.eval()


@contextmanager
def keyed_noise(model: Any, seed: int) -> Iterator[None]:
    """Draws become a function of (seed, row, codebook): single requests only.

    The loop draws all codebooks at once, and again those of which codes repeat themselves, from
    rows of its logits.
    """
    steps: list[torch.Tensor] = []
    hook = model.audio_lm_head.register_forward_hook(lambda _, __, out: steps.append(out[0, -1]))

    def drawn(weights: torch.Tensor, codebooks: list[int], draw: int) -> torch.Tensor:
        # The first row is no codebook's.
        row = (len(steps) - 2) * CODEBOOKS
        keys = [(seed, max(0, row + codebook), draw) for codebook in codebooks]
        noise = [torch.from_numpy(gumbel(*key, IDS)) for key in keys]
        found = [(w.log() + n).argmax() for w, n in zip(weights, noise, strict=True)]
        return torch.stack(found)[:, None] if found else torch.zeros(0, 1, dtype=torch.int64)

    def multinomial(weights: torch.Tensor, num_samples: int, **_: Any) -> torch.Tensor:
        assert num_samples == 1
        return drawn(weights, list(range(CODEBOOKS)), 0)

    def again(weights: torch.Tensor, num_samples: int, **_: Any) -> torch.Tensor:
        assert num_samples == 1
        whole = steps[-1].view(CODEBOOKS, IDS).softmax(-1)
        return drawn(weights, [int((whole == w).all(-1).nonzero()[0]) for w in weights], 1)

    with (
        patch.object(torch, "multinomial", multinomial),
        patch.object(torch.Tensor, "multinomial", again),
    ):
        yield
    hook.remove()


def delayed(turn: Said) -> torch.Tensor:
    """As the processor builds it: a frame of beginnings, the codes, one of ends, [rows, 8]."""
    ends = [np.full((1, CODEBOOKS), id) for id in (BEGIN, END)]
    frames = torch.from_numpy(np.concatenate([ends[0], turn.codes(), ends[1]]).astype(np.int64))
    rows = torch.full((len(frames) + AFTER, CODEBOOKS), END)
    for codebook in range(CODEBOOKS):
        rows[:codebook, codebook] = BEGIN
        rows[codebook : codebook + len(frames), codebook] = frames[:, codebook]
    return rows


def rendered(case: Case) -> str:
    """As the model's chat template renders it, and its processor widens it."""
    speakers = {case.speaker, *(turn.speaker for turn in case.turns)}

    def tag(speaker: int) -> str:
        return f"[SPEAKER{speaker}] " if len(speakers) > 1 else ""

    def turn(role: str, content: str) -> str:
        return f"<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"

    system = "Generate audio following instruction."
    if case.instructions:
        system += f"\n\n<|scene_desc_start|>\n{case.instructions}\n<|scene_desc_end|>"
    whole = "<|begin_of_text|>" + turn("system", system)
    for said in case.turns:
        sound = SOUND * (said.frames + 2) + DELAY * AFTER
        whole += turn("user", tag(said.speaker) + said.text)
        whole += turn("assistant", f"<|audio_out_bos|>{sound}<|audio_eos|>")
    whole += turn("user", tag(case.speaker) + case.text)
    return whole + "<|start_header_id|>assistant<|end_header_id|>\n\n<|audio_out_bos|>"


def ids_of(folder: Path, text: str) -> list[int]:
    """Control tokens by their names, and what is between them by the vocabulary."""
    content = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    added = {token["content"]: token["id"] for token in content["added_tokens"]}
    plain = Tokenizer.from_str(json.dumps(content | {"added_tokens": []}))
    found: list[int] = []
    for part in re.split("|".join(f"({re.escape(name)})" for name in added), text):
        if part in added:
            found.append(added[part])
        elif part:
            found += plain.encode(part, add_special_tokens=False).ids
    return found


def prompt(folder: Path, case: Case) -> dict[str, Any]:
    """What the loop is told."""
    whole = torch.tensor([ids_of(folder, rendered(case))])
    found: dict[str, Any] = {"input_ids": whole, "attention_mask": torch.ones_like(whole)}
    if case.turns:
        sound = torch.cat([delayed(turn) for turn in case.turns])[None]
        found["audio_input_ids"] = sound
        found["audio_input_ids_mask"] = torch.ones(sound.shape[:2], dtype=torch.bool)
    return found


def drawing(case: Case) -> dict[str, Any]:
    """Settings in the reference's terms."""
    again = {"ras_win_len": case.window or None, "ras_win_max_num_repeat": case.repeats}
    if not case.temperature:
        return {"do_sample": False, **again}
    warm = {"temperature": case.temperature, "top_k": case.top_k, "top_p": case.top_p}
    return {"do_sample": True, **warm, **again}


def generated(folder: Path, case: Case) -> dict[str, Any]:
    """The prompt, and all rows that follow it, the first one and that of ends included."""
    asked, model = prompt(folder, case), model_of(folder)
    with keyed_noise(model, case.seed), torch.inference_mode():
        found = model.generate(**asked, max_new_tokens=1 + case.frames + AFTER, **drawing(case))
    before = asked["audio_input_ids"].shape[1] if case.turns else 0
    return {"prompt": asked["input_ids"][0].tolist(), "rows": found[0, before:].tolist()}


def speaker(folder: Path) -> Speaker:
    """See speed.py."""
    case = Case("speed", text=TEXT, temperature=0.7, window=7)
    model, asked = model_of(folder), prompt(folder, case)
    most = 1 + SPEED_FRAMES + AFTER

    def speak(count: int) -> tuple[int, float]:
        batch = {name: tensor.expand(count, -1) for name, tensor in asked.items()}
        began_s = time.perf_counter()
        found = model.generate(**batch, max_new_tokens=most, **drawing(case))
        return found.shape[0] * (found.shape[1] - 1), time.perf_counter() - began_s

    return speak


def sounds(folder: Path) -> dict[str, Any]:
    """Samples of the codec's codes."""
    codec = HiggsAudioV2TokenizerModel.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        ids = torch.from_numpy(codes(FRAMES, 2).T[None].astype(np.int64))
        samples = codec.decode(ids).audio_values[0, 0]
        wav = torch.from_numpy(pcm(*HEARD).astype(np.float32) / 32_768)
        wav = torch.nn.functional.pad(wav, (0, -len(wav) % FRAME_SAMPLES))[None, None]
        heard = codec.encode(wav).audio_codes[0].T
    return {"samples": samples.numpy()[::7], "heard": heard.numpy().astype(np.int16)}


def third(folder: Path) -> dict[str, Any]:
    """Rows of the third version, greedy, which no package runs.

    The network is transformers' Qwen3. The loop is written here by what servers of it do.
    """
    told = json.loads((folder / "config.json").read_text("utf-8"))["text_config"]
    tensors = load_file(folder / "model.safetensors")
    model = Qwen3Model(Qwen3Config(**told)).eval()
    own = {name.removeprefix("body."): t for name, t in tensors.items() if name.startswith("body.")}
    own["embed_tokens.weight"] = tensors["tied.embedding.text_embedding.weight"]
    model.load_state_dict(own)
    table = tensors["tied.embedding.modality_embeddings.0.embedding.weight"]
    before = ids_of(folder, f"<|tts|><|ref_text|>{THIRD.turns[0].text}<|ref_audio|>")
    sound = delayed(THIRD.turns[0])[1:-1]  # without frames of beginnings and ends
    behind = ids_of(folder, f"<|text|>{THIRD.text}<|audio|>")
    rows: list[list[int]] = []
    with torch.inference_mode():
        parts = [model.embed_tokens(torch.tensor(before)), rows_embedded(table, sound)]
        x = torch.cat([*parts, model.embed_tokens(torch.tensor(behind))])
        while len(rows) < THIRD.frames + AFTER:
            hidden = model(inputs_embeds=x[None]).last_hidden_state[0, -1]
            logits = (table @ hidden).view(CODEBOOKS, IDS)
            logits[:, BEGIN] = logits[1:, END] = -torch.inf
            row = [int(one.argmax()) if c <= len(rows) else BEGIN for c, one in enumerate(logits)]
            rows.append(row)
            x = torch.cat([x, rows_embedded(table, torch.tensor([row]))])
    return {"prompt": [*before, *[-1] * len(sound), *behind], "rows": rows}


def rows_embedded(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """[rows, codebooks] -> [rows, dim]."""
    return table[rows + torch.arange(CODEBOOKS) * IDS].sum(1)


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    found = {case.name: generated(checkpoints / case.checkpoint, case) for case in CASES}
    found[THIRD.name] = third(checkpoints / "higgs-third")
    (goldens / "higgs_audio.json").write_text(json.dumps(found) + "\n", "utf-8")
    np.savez_compressed(goldens / "higgs_audio.npz", **sounds(checkpoints / "higgs-codec"))
    print({name: len(case["rows"]) for name, case in found.items()})
