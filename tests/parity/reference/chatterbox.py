"""Goldens of Chatterbox.

The package's own T3, loop by loop, in float64, with its tokenizers, its punctuation and its voice
encoder; draws take the goldens' noise. The perceiver is given the checkpoint's width, and a cloned
voice an S3 tokenizer of small sizes. The published alignment analyser is not run: a vocabulary of
another size than the multilingual file's switches it off.
"""

from __future__ import annotations

import ast
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import pyloudnorm
import torch
from huggingface_hub import constants
from safetensors.torch import load_file
from transformers import GPT2TokenizerFast

from tests.parity.chatterbox_cases import CASES, SPEED, Case, recording
from tests.parity.material import gumbel
from tests.parity.reference.bare import bare, quiet
from tests.parity.reference.draws import keyed_noise

IDS, END = 6563, 6562


constants.HF_HUB_OFFLINE = True
# Their `__init__` imports watermarks; the others would only read files.
bare("chatterbox", "chatterbox.models")
HOME = Path(sys.modules["chatterbox"].__path__[0])
for name in ("onnx", "torchaudio"):
    quiet(name, __spec__=ModuleSpec(name, None))

from chatterbox.models.t3 import t3 as loop  # noqa: E402
from chatterbox.models.t3.llama_configs import LLAMA_CONFIGS  # noqa: E402
from chatterbox.models.t3.modules import cond_enc  # noqa: E402
from chatterbox.models.t3.modules.cond_enc import T3Cond  # noqa: E402
from chatterbox.models.t3.modules.perceiver import Perceiver  # noqa: E402
from chatterbox.models.t3.modules.t3_config import T3Config  # noqa: E402
from chatterbox.models.tokenizers import EnTokenizer, MTLTokenizer  # noqa: E402
from chatterbox.models.voice_encoder import VoiceEncoder  # noqa: E402
from s3tokenizer.model_v2 import ModelConfig, S3TokenizerV2  # noqa: E402
from s3tokenizer.utils import log_mel_spectrogram, padding  # noqa: E402

Tensors = dict[str, torch.Tensor]


def punctuation(kind: str) -> Callable[[str], str]:
    """The package's own function, out of a module that imports far more."""
    file = {"english": "tts", "multilingual": "mtl_tts", "turbo": "tts_turbo"}[kind]
    source = (HOME / f"{file}.py").read_text("utf-8")
    (found,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == "punc_norm"
    )
    scope: dict[str, Any] = {}
    exec(compile(ast.Module([found], []), file, "exec"), scope)
    return scope["punc_norm"]  # type: ignore[no-any-return]


def kind_of(case: Case) -> str:
    """By the checkpoint's name."""
    return case.checkpoint.partition("-")[0]


def config_of(tensors: Tensors, kind: str) -> Any:
    """Sizes of a small checkpoint in the package's terms."""
    gpt = kind == "turbo"
    hp = T3Config(len(tensors["text_emb.weight"]))
    ids, dim = tensors["speech_emb.weight"].shape
    hp.speech_tokens_dict_size = ids
    layer = "tfmr.h." if gpt else "tfmr.layers."
    layers = len({n.split(".")[2] for n in tensors if n.startswith(layer)})
    small = dict(LLAMA_CONFIGS["GPT2_medium" if gpt else "Llama_520M"])
    heads = dim // 64
    if gpt:
        wholes, hidden = len(tensors["tfmr.wpe.weight"]), len(tensors["tfmr.h.0.mlp.c_fc.bias"])
        small |= {"n_embd": dim, "hidden_size": dim, "n_head": heads, "n_layer": layers}
        small |= {"n_positions": wholes, "n_ctx": wholes, "n_inner": hidden, "vocab_size": 8}
        hp.input_pos_emb, hp.speech_cond_prompt_len = None, 375
        hp.use_perceiver_resampler = hp.emotion_adv = False
    else:
        small |= {"hidden_size": dim, "num_hidden_layers": layers, "num_attention_heads": heads}
        hidden = len(tensors["tfmr.layers.0.mlp.gate_proj.weight"])
        small |= {"num_key_value_heads": heads, "intermediate_size": hidden}
        hp.max_text_tokens = len(tensors["text_pos_emb.emb.weight"]) - 2
        hp.max_speech_tokens = len(tensors["speech_pos_emb.emb.weight"]) - 4
    LLAMA_CONFIGS["small"] = small
    hp.llama_config_name = "small"
    cond_enc.Perceiver = partial(Perceiver, pre_attention_query_size=dim, embedding_dim=dim)
    return hp


def model_of(tensors: Tensors, kind: str, dtype: torch.dtype) -> Any:
    """The package's T3 with these weights."""
    loop.tqdm = lambda steps, **_: steps
    model = loop.T3(config_of(tensors, kind))
    own = model.state_dict()
    missing = model.load_state_dict({n: t for n, t in tensors.items() if n in own}, strict=False)
    unused = ("text_head.", "tfmr.embed_tokens.", "tfmr.wte.")
    assert all(name.startswith(unused) for name in missing.missing_keys), missing
    return model.eval().to(dtype)


def noise_of(case: Case) -> Callable[[int, int], Any]:
    """Of a step's draw; ids that the checkpoint's table has beside the model's are never drawn."""

    def noise(step: int, count: int) -> Any:
        told = gumbel(case.seed, step, 0, IDS) if case.temperature else np.zeros(IDS)
        return np.pad(told, (0, count - IDS), constant_values=-np.inf)

    return noise


def text_ids(folder: Path, case: Case) -> list[int]:
    """As the package reads a text."""
    kind = kind_of(case)
    text = punctuation(kind)(case.text)
    if kind == "turbo":
        read = GPT2TokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))
        added = json.loads((folder / "added_tokens.json").read_text("utf-8"))
        read.add_tokens(sorted(added, key=added.__getitem__))
        return list(read(text).input_ids)
    if kind == "multilingual":
        read = MTLTokenizer(str(folder / "grapheme_mtl_merged_expanded_v1.json"))
        return [255, *read.encode(text, case.language), 0]
    return [255, *EnTokenizer(str(folder / "tokenizer.json")).encode(text), 0]


def part(tensors: Tensors, prefix: str) -> Tensors:
    """Tensors of a module."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def hears(tensors: Tensors, wav: Any, most: int) -> torch.Tensor:
    """S3 tokens [1, tokens]."""
    layers = ModelConfig(n_audio_state=64, n_audio_head=1, n_audio_layer=1)
    model = S3TokenizerV2("small v2", layers)
    model.load_state_dict(part(tensors, "tokenizer."), strict=False)
    mel = log_mel_spectrogram(torch.from_numpy(wav))[..., : most * 4]
    mels, lengths = padding([mel])
    return model.eval().quantize(mels, lengths)[0].long()


def voice(tensors: Tensors, case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """The voice's vector [1, 256] and its tokens [1, tokens]."""
    if not case.seconds:
        return tensors["t3.speaker_emb"], tensors["t3.cond_prompt_speech_tokens"]
    wav = recording(case).astype(np.float32) / 32_768
    seconds, most = (15, 375) if kind_of(case) == "turbo" else (6, 150)
    if kind_of(case) == "turbo":
        loudness = pyloudnorm.Meter(24_000).integrated_loudness(wav)
        wav = (wav * 10 ** ((-27 - loudness) / 20)).astype(np.float32)
    heard = librosa.resample(wav, orig_sr=24_000, target_sr=16_000)
    encoder = VoiceEncoder()
    own = encoder.state_dict()
    encoder.load_state_dict({n: tensors.get(n, t) for n, t in own.items()})
    vector = encoder.eval().embeds_from_wavs([heard], sample_rate=16_000)
    return torch.from_numpy(vector), hears(tensors, heard[: seconds * 16_000], most)


def conditions(tensors: Tensors, case: Case, dtype: torch.dtype) -> Any:
    """What T3 is told of a voice."""
    vector, tokens = voice(tensors, case)
    emotion = case.emotion * torch.ones(1, 1, 1, dtype=dtype)
    return T3Cond(
        speaker_emb=vector.to(dtype), cond_prompt_speech_tokens=tokens, emotion_adv=emotion
    )


def settings(case: Case) -> dict[str, Any]:
    """The package's defaults where a case says nothing; greedy is told by the noise."""
    turbo = kind_of(case) == "turbo"
    penalty = 2.0 if kind_of(case) == "multilingual" else 1.2
    found: dict[str, Any] = {
        "temperature": case.temperature or 1.0,
        "top_p": (0.95 if turbo else 1.0) if case.top_p is None else case.top_p,
        "repetition_penalty": penalty if case.penalty is None else case.penalty,
    }
    if turbo:
        top_k = 1000 if case.top_k is None else case.top_k
        return found | {"top_k": top_k if case.temperature else 1}
    return found | {"min_p": 0.05 if case.min_p is None else case.min_p, "cfg_weight": case.weight}


def generated(model: Any, told: Any, ids: list[int], case: Case) -> list[int]:
    """Tokens of one request, without the end."""
    if kind_of(case) == "turbo":
        text = torch.tensor([ids])
        most = {"max_gen_len": case.tokens - 1}
        found = model.inference_turbo(told, text, **settings(case), **most)
    else:
        text = torch.tensor([ids, ids])
        most = {"max_new_tokens": case.tokens}
        found = model.inference(t3_cond=told, text_tokens=text, **settings(case), **most)
    tokens: list[int] = found[0].tolist()
    return tokens[:-1] if tokens[-1] == END else tokens


def speaker(folder: Path) -> Callable[[int], tuple[int, float]]:
    """See speed.py. The reference speaks one request after the other."""
    tensors = load_file(folder / "model.safetensors")
    model = model_of(tensors, "english", torch.float32)
    ids = text_ids(folder, SPEED)

    def speak(count: int) -> tuple[int, float]:
        began_s, frames = time.perf_counter(), 0
        for _ in range(count):
            told = conditions(tensors, SPEED, torch.float32)
            frames += len(generated(model, told, ids, SPEED))
        return frames, time.perf_counter() - began_s

    return speak


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    tokens, texts, heard = {}, {}, {}
    for case in CASES:
        folder = checkpoints / case.checkpoint
        tensors = load_file(folder / "model.safetensors")
        torch.manual_seed(0)
        model = model_of(tensors, kind_of(case), torch.float64)
        texts[case.name] = text_ids(folder, case)
        told = conditions(tensors, case, torch.float64)
        if case.seconds:
            heard[case.name] = {
                "speaker": told.speaker_emb[0].tolist(),
                "tokens": told.cond_prompt_speech_tokens[0].tolist(),
            }
        with keyed_noise(noise_of(case)), torch.inference_mode():
            tokens[case.name] = generated(model, told, texts[case.name], case)
        assert max(tokens[case.name]) < END - 1, case.name
    found = {"tokens": tokens, "texts": texts, "heard": heard}
    (goldens / "chatterbox.json").write_text(json.dumps(found) + "\n", "utf-8")
    print({name: len(ids) for name, ids in tokens.items()})
