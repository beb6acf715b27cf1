"""Goldens of Pocket TTS.

The official package's own loop, voices, division of texts and decoder; draws take the goldens'
noise.
"""

from __future__ import annotations

import copy
import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from pocket_tts import TTSModel
from pocket_tts.data.audio_utils import convert_audio, end_on_pause
from pocket_tts.models.flow_lm import FlowLMModel
from pocket_tts.models.mimi import build_mimi
from pocket_tts.models.text_chunking import prepare_text_prompt, split_into_best_sentences
from pocket_tts.modules import text_conditioner
from pocket_tts.utils.config import CONFIGS_DIR, load_config

from tests.parity.material import hashed
from tests.parity.pocket_cases import CASES, RULES, TEXTS, Case, latents, noise, recording

OURS = ("model_type", "language", "voice_cloning", "sampler_decode_steps")
MOST_TOKENS = 50


def model_of(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The reference, and our configuration."""
    told = json.loads((folder / "config.json").read_text("utf-8"))
    theirs = {name: value for name, value in told.items() if name not in OURS}
    theirs["weights_path"] = str(folder / "model.safetensors")
    for part in ("flow_lm", "mimi"):
        theirs[part]["dtype"] = "float32"
    table = theirs["flow_lm"]["lookup_table"]
    table |= {"tokenizer": "tokenizers", "tokenizer_path": str(folder / "tokenizer.json")}
    path = folder / "reference.yaml"
    path.write_text(json.dumps(theirs), "utf-8")  # which is YAML as well
    steps = 16 if theirs["flow_lm"]["flow"].get("type") == "flow_matching" else 1
    steps = told.get("sampler_decode_steps", steps)
    return TTSModel.load_model(config=path, sampler_decode_steps=steps), told


@contextmanager
def keyed_noise(seed: int, frames: list[Any]) -> Iterator[None]:
    """Draws become a function of seed and frame, of which `frames` says how many there are."""

    def normal_(tensor: torch.Tensor, mean: float = 0.0, std: float = 1.0) -> torch.Tensor:
        return tensor.copy_(torch.from_numpy(noise(seed, len(frames)) * np.float32(std)))

    with patch.object(torch.nn.init, "normal_", normal_):
        yield


class Frames(queue.Queue[Any]):
    """Keeps what the loop puts."""

    def __init__(self, frames: list[Any]) -> None:
        super().__init__()
        self.frames = frames

    def put(self, item: Any, *_: Any, **__: Any) -> None:
        if item is not None:
            self.frames.append(item[0, 0].numpy().copy())


def voice(model: Any, folder: Path, case: Case) -> Any:
    """The state that every chunk begins with."""
    if not case.seconds:
        return model.get_state_for_audio_prompt(folder / "embeddings" / "slt.safetensors")
    samples = torch.from_numpy(recording(case).astype(np.float32) / 32_768)
    return model.get_state_for_audio_prompt(samples[None])


def divided(model: Any, text: str, rules: Any) -> list[tuple[str, int]]:
    """Chunks as they are told, and frames behind their end."""
    switches = (
        rules.pad_with_spaces_for_short_inputs,
        rules.remove_semicolons,
        rules.append_terminal_punctuation,
        rules.capitalize_first_letter,
        rules.replace_characters,
    )
    tokenizer = model.flow_lm.conditioner.tokenizer
    chunks = split_into_best_sentences(tokenizer, text, MOST_TOKENS, *switches)
    found = (prepare_text_prompt(chunk, *switches) for chunk in chunks)
    return [(told, guess + 2) for told, guess in found]


@torch.no_grad()
def generated(folder: Path, case: Case) -> dict[str, Any]:
    """Latents of all chunks, the chunk of each, and the tokens of each chunk."""
    model, _ = model_of(folder)
    model.temp = case.temperature
    state = voice(model, folder, case)
    frames: list[Any] = []
    of: list[int] = []
    tokens, afters = [], []
    for number, (told, after) in enumerate(divided(model, case.text, model)):
        ids = model.flow_lm.conditioner.prepare(told)
        begun, most = copy.deepcopy(state), model._estimate_max_gen_len(ids.shape[1])
        model._expand_kv_cache(begun, model._flow_lm_current_end(begun) + ids.shape[1] + most)
        model._run_flow_lm_and_increment_step(model_state=begun, text_tokens=ids)
        with keyed_noise(case.seed, frames):
            behind = after if case.after is None else case.after
            afters.append(behind)
            told_to = (begun, most, behind, Frames(frames), threading.Event())
            model._autoregressive_generation(*told_to)
        of += [number] * (len(frames) - len(of))
        tokens.append(ids[0].tolist())
    return {
        "latents": np.stack(frames),
        "of": np.array(of, np.int32),
        "tokens": tokens,
        "after": afters,
    }


@cache
def heard(folder: Path, case: Case, rate: int) -> Any:
    """Latents of a recording at a rate."""
    model, _ = model_of(folder)
    samples = torch.from_numpy(recording(case, rate).astype(np.float32) / 32_768)[None]
    samples = end_on_pause(convert_audio(samples, rate, 24_000, 1), 24_000)
    with torch.no_grad():
        return model.mimi.encode_to_latent(samples[None])[0].numpy()


def sounds(folder: Path) -> Any:
    """Samples of all chunks, each decoded by a worker of its own."""
    model, _ = model_of(folder)
    values, of = latents()
    found = []
    for chunk in np.unique(of):
        given: queue.Queue[Any] = queue.Queue()
        for row in values[of == chunk]:
            given.put(torch.from_numpy(row)[None, None])
        given.put(None)
        results: queue.Queue[Any] = queue.Queue()
        model._decode_audio_worker(given, results, 10_000, 16)
        while (result := results.get())[0] == "chunk":
            found.append(result[1][0, 0].numpy())
        assert result[0] == "done", result
    return np.concatenate(found).clip(-1, 1)


def shapes(path: Path) -> str:
    """Names and shapes of a published checkpoint's tensors, as one hash."""
    config = load_config(path)
    text_conditioner.build_tokenizer = lambda *_: None  # its file is on the hub
    begins = config.flow_lm.insert_bos_before_voice
    with torch.device("meta"):
        talker = FlowLMModel.from_pydantic_config(
            config.flow_lm, config.mimi.quantizer.dimension, begins
        )
        heard = config.mimi.inner_dim or config.mimi.seanet.dimension
        talker.speaker_proj_weight = torch.nn.Parameter(torch.empty(talker.dim, heard))
        codec = build_mimi(config.mimi)
    parts = (("flow_lm.", talker.state_dict()), ("mimi.", codec.state_dict()))
    return hashed({f"{p}{name}": tuple(t.shape) for p, part in parts for name, t in part.items()})


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    arrays, texts, after = {}, {}, {}
    for case in CASES:
        found = generated(checkpoints / case.checkpoint, case)
        arrays |= {f"{case.name}/{name}": found[name] for name in ("latents", "of")}
        texts[case.name], after[case.name] = found["tokens"], found["after"]
    for name in ("pocket", "pocket-small"):
        arrays[f"{name}/samples"] = sounds(checkpoints / name)
        case = next(case for case in CASES if case.seconds)
        for rate in (8000, 24_000, 44_100):
            arrays[f"{name}/heard at {rate}"] = heard(checkpoints / name, case, rate)
    model, _ = model_of(checkpoints / "pocket")
    divisions = {}
    for name, rules in RULES.items():
        switched = model.config.model_copy(update={"replace_characters": {}, **rules})
        divisions[name] = [divided(model, text, switched) for text in TEXTS]
    published = {
        path.stem: load_config(path).model_dump(exclude_none=True)
        for path in sorted(CONFIGS_DIR.glob("*.yaml"))
    }
    np.savez_compressed(goldens / "pocket_tts.npz", **arrays)
    told = {"tokens": texts, "after": after, "divisions": divisions, "published": published}
    told["shapes"] = {path.stem: shapes(path) for path in sorted(CONFIGS_DIR.glob("*.yaml"))}
    (goldens / "pocket_tts.json").write_text(json.dumps(told) + "\n", "utf-8")
    print({case.name: len(arrays[f"{case.name}/of"]) for case in CASES})
