"""Goldens of the talker, codes and backbone states of every case; of the encoders and the codec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from tests.parity.cases import CASES, RATES, TEXTS, Case
from tests.parity.material import CODEBOOKS, audio, embedding, frames, gumbel
from tests.parity.reference.draws import keyed_noise
from tests.parity.reference.official import load

Arrays = dict[str, Any]


def sampled(case: Case) -> list[int]:
    """The codebooks that are drawn rather than chosen greedily, in order."""
    talker = [0] if case.options.get("do_sample") else []
    predictor = range(1, CODEBOOKS) if case.options.get("subtalker_dosample") else []
    return [*talker, *predictor]


def noise_of(case: Case) -> Callable[[int, int], Any]:
    """Of (seed, frame, codebook)."""
    order = sampled(case)

    def noise(draw: int, count: int) -> Any:
        frame, place = divmod(draw, len(order))
        return gumbel(case.seed, frame, order[place], count)

    return noise


@contextmanager
def recorded(model: Any) -> Iterator[list[Any]]:
    """The codes and hidden states that the official generate returns."""
    plain, kept = model.generate, []

    def generate(**arguments: Any) -> Any:
        kept.append(plain(**arguments))
        return kept[-1]

    with patch.object(model, "generate", generate):
        yield kept


def reference(case: Case, dim: int) -> Any:
    """A cloning prompt whose codes and embedding are drawn, not encoded."""
    from qwen_tts.inference.qwen3_tts_model import VoiceClonePromptItem

    codes = torch.from_numpy(frames(case.reference_frames, 5))
    return VoiceClonePromptItem(
        ref_code=codes if case.clone == "in-context" else None,
        ref_spk_embedding=torch.from_numpy(embedding(dim)),
        x_vector_only_mode=case.clone == "x-vector",
        icl_mode=case.clone == "in-context",
        ref_text=case.reference_text,
    )


def speak(official: Any, case: Case) -> Any:
    """Call the official package as the case says; returns its waveforms."""
    common = {"language": list(case.languages), "non_streaming_mode": not case.streaming}
    common |= case.options
    texts = list(case.texts)
    kind = official.model.config.tts_model_type
    if kind == "custom_voice":
        instruct = list(case.instructions) or None
        return official.generate_custom_voice(
            texts, list(case.speakers), instruct=instruct, **common
        )
    if kind == "voice_design":
        return official.generate_voice_design(texts, list(case.instructions), **common)
    prompt = [reference(case, official.model.config.talker_config.hidden_size)]
    return official.generate_voice_clone(texts, voice_clone_prompt=prompt, **common)


def goldens(checkpoints: Path) -> Arrays:
    """Codes [frames, 16] int16 and states [frames, dim] of every request of every case."""
    found: Arrays = {}
    loaded = {name: load(checkpoints / name) for name in sorted({c.checkpoint for c in CASES})}
    for case in CASES:
        official = loaded[case.checkpoint]
        with keyed_noise(noise_of(case)), recorded(official.model) as kept:
            wavs, _ = speak(official, case)
        codes, hidden = kept[0]
        for i, (code, state) in enumerate(zip(codes, hidden, strict=True)):
            found[f"{case.name}/{i}/codes"] = code.numpy().astype(np.int16)
            found[f"{case.name}/{i}/hidden"] = state.numpy()
        if case.name == "in context, sampled":
            found[f"{case.name}/wav"] = wavs[0][::3]
        print(f"{case.name}: {[len(code) for code in codes]} frames")
    return found


def encoders(checkpoints: Path) -> Arrays:
    """Speaker encoder and codec encoder, on drawn audio."""
    official = load(checkpoints / "base")
    model = official.model
    found: Arrays = {}
    for name, seconds in (("short", 1.31), ("long", 12.0)):
        wav = audio(seconds, 3)
        item = official.create_voice_clone_prompt((wav, 24_000), "the user")[0]
        found[f"{name}/codes"] = item.ref_code.numpy().astype(np.int16)
        found[f"{name}/speaker"] = item.ref_spk_embedding.numpy()
        found[f"{name}/latents"] = latents(model.speech_tokenizer.model.encoder, wav)[:, ::4]
    for rate in RATES:
        item = official.create_voice_clone_prompt((audio(1.31, 3, rate), rate), "the user")[0]
        found[f"{rate}/codes"] = item.ref_code.numpy().astype(np.int16)
        found[f"{rate}/speaker"] = item.ref_spk_embedding.numpy()
    found["short/mels"] = mels(audio(1.31, 3))[::3]
    return found


def latents(encoder: Any, wav: np.ndarray) -> np.ndarray:
    """What the codec's encoder quantises, [channels, frames]."""
    with torch.inference_mode():
        x = encoder.encoder(torch.from_numpy(wav)[None, None])
        x = encoder.encoder_transformer(x.transpose(1, 2))[0].transpose(1, 2)
        return encoder.downsample(x)[0].numpy()


def mels(wav: np.ndarray) -> np.ndarray:
    """[frames, 128], as the speaker encoder sees them."""
    from tests.parity.reference.official import mel_spectrogram

    spectrum = mel_spectrogram(
        torch.from_numpy(wav)[None], 1024, 128, 24_000, 256, 1024, fmin=0, fmax=12_000
    )
    return spectrum[0].T.numpy()


def tokens(checkpoints: Path) -> dict[str, dict[str, list[int]]]:
    """What the official processor makes of texts in the chat template, by checkpoint."""
    return {name: _tokens(load(checkpoints / name)) for name in ("custom", "newer", "unnamed")}


def _tokens(official: Any) -> dict[str, list[int]]:
    template = official._build_assistant_text
    return {text: official._tokenize_texts([template(text)])[0][0].tolist() for text in TEXTS}


def codec(checkpoints: Path) -> dict[str, Any]:
    """Every third sample of the same codes decoded at once, and in windows with left context."""
    decoder = load(checkpoints / "custom").model.speech_tokenizer.model.decoder
    codes = torch.from_numpy(frames(24, 9)).T[None]
    with torch.inference_mode():
        once = decoder(codes)[0, 0]
        windowed = decoder.chunked_decode(codes, 10, 4)[0, 0]
    return {"once": once[::3].numpy(), "windowed": windowed[::3].numpy()}
