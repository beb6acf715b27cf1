"""What both sides of a comparison draw from stated seeds. Needs numpy alone."""

import hashlib
import io
import json
import re
import wave
import zlib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
GOLDENS: Final = Path(__file__).parent / "goldens"
# What most families say.
TEXT: Final = "It's the end of the world, and you're singing to the user: how odd!"

SAMPLE_RATE = 24_000
CODEBOOKS = 16


@cache
def said(name: str) -> dict[str, Any]:
    """What a reference wrote as `NAME.json`."""
    found: dict[str, Any] = json.loads((GOLDENS / f"{name}.json").read_text("utf-8"))
    return found


@cache
def arrays(name: str) -> dict[str, npt.NDArray[Any]]:
    """What a reference wrote as `NAME.npz`."""
    with np.load(GOLDENS / f"{name}.npz") as file:
        return dict(file)


def gumbel(seed: int, frame: int, codebook: int, count: int) -> Floats:
    """Noise of one draw, [count]: added to log probabilities, the largest wins."""
    random = np.random.Generator(np.random.PCG64([seed, frame, codebook]))
    return random.gumbel(size=count).astype(np.float32)


def weight(seed: int, name: str, shape: tuple[int, ...]) -> Floats:
    """A parameter: norms near 1, everything else of unit gain."""
    values = normal([seed, zlib.crc32(name.encode())], *shape)
    if "norm" in name and name.endswith("weight"):
        return 1 + 0.1 * values
    return 0.3 * values if len(shape) == 1 else values / np.sqrt(np.float32(shape[-1]))


def audio(seconds: float, seed: int, rate: int = SAMPLE_RATE) -> Floats:
    """Something like speech: gliding harmonics in syllables, and a little noise."""
    random = np.random.Generator(np.random.PCG64(seed))
    time = np.arange(int(seconds * rate)) / rate
    pitch = 140 + 40 * np.sin(2 * np.pi * 0.7 * time + seed)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(n * phase) / n for n in range(1, 12))
    syllables = 0.5 - 0.5 * np.cos(2 * np.pi * 3.1 * time)
    hiss = random.standard_normal(len(time))
    return (0.12 * voice * syllables + 0.01 * hiss).astype(np.float32)


def pcm(seconds: float, seed: int, rate: int = SAMPLE_RATE) -> npt.NDArray[np.int16]:
    """A recording, [samples]."""
    return np.round(audio(seconds, seed, rate) * 32_767).astype(np.int16)


def wav(samples: npt.NDArray[np.int16], rate: int = SAMPLE_RATE) -> bytes:
    """A recording as a client sends it."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, rate, 0, "NONE", ""))
        out.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def normal(seed: Any, *shape: int) -> Floats:
    """Standard normal, drawn in float64."""
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(shape).astype(np.float32)


def drawn_codes(seed: Any, most: int, *shape: int) -> npt.NDArray[np.int16]:
    """Codes below `most`."""
    random = np.random.Generator(np.random.PCG64(seed))
    return random.integers(0, most, shape).astype(np.int16)


def hashed(shapes: dict[str, tuple[int, ...]]) -> str:
    """Names and shapes of tensors, in any order, as one hash."""
    lines = sorted(f"{name} {list(shape)}" for name, shape in shapes.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def pattern(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, dict[str, int]]:
    """Names with their numbers replaced by *, the shapes below each, and how often each."""
    found: dict[str, Counter[str]] = {}
    for name, shape in shapes.items():
        key = re.sub(r"\.\d+(?=\.)", ".*", name)
        found.setdefault(key, Counter())[str(list(shape))] += 1
    return {key: dict(sorted(found[key].items())) for key in sorted(found)}


def frames(count: int, seed: int) -> npt.NDArray[np.int64]:
    """[count, CODEBOOKS] codes."""
    random = np.random.Generator(np.random.PCG64(seed))
    return random.integers(0, 2048, (count, CODEBOOKS))


def embedding(dim: int) -> Floats:
    """A speaker's, drawn."""
    return normal(7, dim)
