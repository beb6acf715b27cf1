"""Goldens of CosyVoice 2 and Fun-CosyVoice 3.

The authors' language models and sampling, of github FunAudioLLM/CosyVoice, in float64; draws take
the goldens' noise. The repository is no package: COSYVOICE_SOURCE names a clone, of which
`cosyvoice/llm/llm.py` and `cosyvoice/utils/common.py` are run. What else they import is for
training and serving. The goldens here were made with the inference part of `llm.py` as it stands at
163c4cb5c03357e6933e4b92ca74ed780829ad42, and with the sampling functions of a copy of `common.py`
whose commit is not known (it draws again with the repeated id at minus infinity).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from tests.parity.cosyvoice_cases import CASES, IDS, SPEED_TOKENS, Case, heard
from tests.parity.material import gumbel
from tests.parity.reference import s3
from tests.parity.reference.bare import quiet

TOKENS, END_OF_PROMPT = 6561, 151_646
SYSTEM = "You are a helpful assistant."
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endofprompt|>"]
BACKBONE = "CosyVoice-BlankEN"


@cache
def authors() -> tuple[Any, Any]:
    """Their modules `llm` and `common`."""
    silent = SimpleNamespace(info=lambda *_: None)
    quiet("cosyvoice.utils.file_utils", logging=silent)
    quiet("cosyvoice.utils.onnx", SpeechTokenExtractor=None, online_feature=False, onnx_path="")
    quiet("cosyvoice.utils.mask", make_pad_mask=None)
    nothing = torch.nn.Identity
    quiet("cosyvoice.transformer.label_smoothing_loss", LabelSmoothingLoss=nothing)
    sys.path.insert(0, os.environ["COSYVOICE_SOURCE"])
    from cosyvoice.llm import llm
    from cosyvoice.utils import common

    return llm, common


class Keyed:
    """Sampling whose noise is a function of (seed, draws so far, which draw)."""

    def __init__(self, case: Case) -> None:
        self._case, self._common = case, authors()[1]
        self.drawn: list[int] = []

    def __call__(self, scores: Any, drawn: list[int], sampling: int) -> int:
        self.drawn = drawn
        if self._case.greedy:
            return int(scores.argmax())
        order = scores.softmax(0).sort(descending=True, stable=True)[1].tolist()
        with _noise(self._case.seed, len(drawn), order):
            return int(self._common.ras_sampling(scores, drawn, sampling))


@contextmanager
def _noise(seed: int, step: int, order: list[int]) -> Iterator[None]:
    """The nucleus is drawn of ids in order, what replaces it of all ids."""
    draw = 0

    def multinomial(weights: Any, count: int, **_: Any) -> Any:
        nonlocal draw
        ids = list(range(len(weights))) if draw else order[: len(weights)]
        noise = torch.from_numpy(gumbel(seed, step, draw, IDS)).double()[ids]
        draw += 1
        return (weights.double().log() + noise).argmax().view(1)

    with patch.object(torch.Tensor, "multinomial", multinomial):
        yield


@cache
def model_of(folder: Path, version: int) -> Any:
    """Theirs, with the folder's tensors, in float64."""
    tensors = load_file(folder / "llm.safetensors")
    config = Qwen2Config.from_pretrained(folder / BACKBONE)
    encoder = authors()[0].Qwen2Encoder.__new__(authors()[0].Qwen2Encoder)
    torch.nn.Module.__init__(encoder)
    encoder.model = Qwen2ForCausalLM(config)
    made = authors()[0].Qwen2LM if version == 2 else authors()[0].CosyVoice3LM
    model = made(config.hidden_size, config.hidden_size, TOKENS, encoder, None)
    missing, surplus = model.load_state_dict(tensors, strict=False)
    assert not surplus
    assert set(missing) <= {"llm.model.lm_head.weight"}
    return model.double().eval()


@cache
def tokenizer_of(folder: Path) -> Any:
    """The folder's, with the tag that ends a prompt."""
    found = AutoTokenizer.from_pretrained(folder / BACKBONE)
    found.add_special_tokens({"additional_special_tokens": SPECIALS})
    return found


def ids(folder: Path, text: str) -> Any:
    """[1, tokens]."""
    found = tokenizer_of(folder)([text], return_tensors="pt")["input_ids"] if text else None
    if found is None:
        return torch.zeros(1, 0, dtype=torch.int64)
    # The published vocabulary is full, so that this tag is the first behind its three.
    end = tokenizer_of(folder).convert_tokens_to_ids("<|endofprompt|>")
    return torch.where(found == end, END_OF_PROMPT, found)


def asked(folder: Path, case: Case) -> dict[str, Any]:
    """As the frontend builds it."""
    text, before = case.text, case.said
    system = SYSTEM if case.version == 3 else ""
    if case.how:
        before = f"{system} {case.how}<|endofprompt|>".lstrip()
    elif system and case.said:
        before = f"{system}<|endofprompt|>{case.said}"
    elif system:
        text = f"{system}<|endofprompt|>{case.text}"
    speech = heard(case)[None, : None if case.said and not case.how else 0]
    prompt, tokens = ids(folder, before), torch.from_numpy(speech.astype("int64"))
    return {
        "text": ids(folder, text),
        "prompt_text": prompt,
        "prompt_text_len": torch.tensor([prompt.shape[1]]),
        "prompt_speech_token": tokens,
        "prompt_speech_token_len": torch.tensor([tokens.shape[1]]),
        "embedding": torch.zeros(0),
    }


def generated(folder: Path, case: Case) -> dict[str, Any]:
    """What is drawn, ids that ask for text included, as far as the case goes."""
    model, told = model_of(folder, case.version), asked(folder, case)
    model.sampling = keyed = Keyed(case)
    text = told.pop("text")
    if case.streamed:
        pieces = (text[:, i : i + 1] for i in range(text.shape[1]))
        found = model.inference_bistream(text=pieces, **told)
    else:
        found = model.inference(text=text, text_len=torch.tensor([text.shape[1]]), **told)
    said = list(islice(found, case.tokens))
    return {"tokens": said, "turns": _turns(said, keyed.drawn)}


def _turns(said: list[int], drawn: list[int]) -> list[int]:
    """How many times more text was asked for before each token."""
    found, asked_for = list[int](), 0
    for token in drawn:
        if len(found) == len(said):
            break
        if token >= TOKENS:
            asked_for += 1
        else:
            found.append(asked_for)
    return found + [asked_for] * (len(said) - len(found))


def speaker(folder: Path) -> Callable[[int], tuple[int, float]]:
    """See speed.py. The reference speaks requests one after another."""
    case = CASES[0]
    model = model_of(folder, case.version).float()
    model.sampling = authors()[1].ras_sampling

    def speak(count: int) -> tuple[int, float]:
        frames, began_s = 0, time.perf_counter()
        for _ in range(count):
            told = asked(folder, case)
            text = told.pop("text")
            length = torch.tensor([text.shape[1]])
            found = model.inference(text=text, text_len=length, **told)
            frames += len(list(islice(found, SPEED_TOKENS)))
        return frames, time.perf_counter() - began_s

    return speak


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    found = {}
    for case in CASES:
        found[case.name] = generated(checkpoints / case.checkpoint, case)
    (goldens / "cosyvoice.json").write_text(json.dumps(found) + "\n", "utf-8")
    np.savez_compressed(goldens / "s3.npz", **s3.heard(checkpoints / "s3"))
    print({name: (len(case["tokens"]), case["turns"][-1]) for name, case in found.items()})
