"""Stage 1: the teacher speaks the training text, in parallel, into resumable shards."""

import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from voicetrain.features import FRAME_SAMPLES, HOP, log_mel
from voicetrain.progress import Progress
from voicetrain.teacher import VOICES, Spoken, TeacherError, flite

SHARD = 500
MIN_S, MAX_S = 0.3, 10.0
AUDIO_EVERY = 5


@dataclass(frozen=True)
class Job:
    """One shard to make: sentence i of the text is spoken by voice i modulo 3."""

    path: Path
    start: int
    sentences: tuple[str, ...]


def padded_audio(spoken: Spoken) -> NDArray[np.float32]:
    """[samples] in [-1, 1], lengthened by silence to whole codec frames."""
    audio = spoken.audio.astype(np.float32) / 32768
    return np.pad(audio, (0, -len(audio) % FRAME_SAMPLES))


def phone_of_hop(spoken: Spoken, hops: int) -> NDArray[np.int16]:
    """[hops] index of the phone that sounds at the middle of each 10 ms hop."""
    middles = (np.arange(hops) + 0.5) * HOP / 16_000
    index = np.searchsorted(np.array(spoken.ends_s), middles)
    return np.minimum(index, len(spoken.phones) - 1).astype(np.int16)


def _record(index: int, sentence: str) -> dict[str, Any] | None:
    voice = index % len(VOICES)
    try:
        spoken = flite().speak(sentence, VOICES[voice])
    except TeacherError:
        return None
    if not MIN_S <= len(spoken.audio) / 16_000 <= MAX_S:
        return None
    audio = padded_audio(spoken)
    mel = log_mel(torch.from_numpy(audio)[None])[0].numpy().astype(np.float16)
    keeps_audio = index // len(VOICES) % AUDIO_EVERY == 0
    return {
        "voice": voice,
        "text": sentence,
        "mel": mel,
        "hop_phone": phone_of_hop(spoken, len(mel)),
        "f0": np.pad(spoken.f0, (0, max(0, len(mel) - len(spoken.f0))))[: len(mel)],
        "symbol": np.array([phone.symbol_id for phone in spoken.phones], np.int16),
        "flag": np.array([phone.flag for phone in spoken.phones], np.int16),
        "audio": np.round(audio * 32768).astype(np.int16) if keeps_audio else np.zeros(0, np.int16),
    }


def make_shard(job: Job) -> int:
    """Speak one shard and write it at once. Returns how many utterances it holds."""
    torch.set_num_threads(1)
    records = [_record(job.start + i, text) for i, text in enumerate(job.sentences)]
    kept = [record for record in records if record is not None]
    arrays: dict[str, Any] = {
        name: np.concatenate([record[name] for record in kept])
        for name in ("mel", "hop_phone", "f0", "symbol", "flag", "audio")
    }
    arrays["hops"] = np.array([len(record["mel"]) for record in kept])
    arrays["phones"] = np.array([len(record["symbol"]) for record in kept])
    arrays["samples"] = np.array([len(record["audio"]) for record in kept])
    arrays["voice"] = np.array([record["voice"] for record in kept])
    arrays["text"] = np.array([record["text"] for record in kept])
    temporary = job.path.with_suffix(".part.npz")
    np.savez(temporary, **arrays)
    temporary.rename(job.path)
    return len(kept)


def synthesise(sentences: Sequence[str], folder: Path, workers: int, nice: int = 5) -> None:
    """Make every missing shard of `folder`. Interrupted runs go on where they stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for start in range(0, len(sentences), SHARD):
        path = folder / f"{start // SHARD:04d}.npz"
        if not path.exists():
            jobs.append(Job(path, start, tuple(sentences[start : start + SHARD])))
    progress = Progress("synthesis", len(jobs))
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, initializer=os.nice, initargs=(nice,)) as pool:
        for done, count in enumerate(pool.imap_unordered(make_shard, jobs), 1):
            progress.report(done, utterances=count)
