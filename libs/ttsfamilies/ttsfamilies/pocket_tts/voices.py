"""Published voices: keys and values of the positions that a prompt begins with.

A voice's file has them of every layer, as the published weights compute them of its recording. They
are read into tables, from which a prompt's positions take theirs instead of computing any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ttscommon.engine.checkpoint import TENSORS, CheckpointError
from ttscommon.sound.recordings import Floats
from ttsfamilies.base.runners.computation import Attend
from ttsfamilies.pocket_tts.sizes import PocketBackbone

_TAPS, _BETA = 10, 5.0
_FRAME_S, _FADE_S, _PAUSE_S = 0.02, 0.02, 0.08
_FLOOR_DB: Final = 35.0


def resampled(samples: Floats, rate: int, wanted: int) -> Floats:
    """[samples] at another rate, as scipy's resample_poly does it: the official package's way."""
    shared = math.gcd(rate, wanted)
    up, down = wanted // shared, rate // shared
    if up == down:
        return samples
    half = _TAPS * max(up, down)
    filter = _low_pass(half, max(up, down)) * up
    padded = np.pad(samples.astype(np.float64), (half // up + 1, half // up + down + 1))
    count = -(-len(samples) * up // down)
    found = np.empty(count)
    for phase in range(min(up, count)):
        centre = np.arange(phase, count, up) * down  # on the grid of rate * up
        first = -(-(centre[0] - half) // up)
        taps = filter[half + centre[0] - up * np.arange(first, (centre[0] + half) // up + 1)]
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(taps))
        starts = first + half // up + 1 + np.arange(len(centre)) * down
        found[phase::up] = windows[starts] @ taps
    return found.astype(np.float32)


def _low_pass(half: int, rate: int) -> np.ndarray:
    """A windowed sinc of 2 * half + 1 taps that passes 1 / rate, as scipy's firwin."""
    at = np.arange(-half, half + 1)
    found = np.sinc(at / rate) * np.kaiser(2 * half + 1, _BETA)
    return np.asarray(found / found.sum())


def ended_on_a_pause(samples: Floats, rate: int) -> Floats:
    """Silence at the end cut, the end of the rest faded out, and 80 ms of silence behind it.

    Otherwise a voice goes on with its recording's last word, or begins late.
    """
    frame = max(1, int(_FRAME_S * rate))
    count = len(samples) // frame
    if not count:
        return samples
    power = np.square(samples[: count * frame]).reshape(count, frame).mean(1)
    loudness = 20 * np.log10(np.sqrt(power) + 1e-12)
    end = (int(np.flatnonzero(loudness > loudness.max() - _FLOOR_DB)[-1]) + 1) * frame
    fade = min(int(_FADE_S * rate), end)
    kept = samples[:end].copy()
    kept[end - fade :] *= np.linspace(1, 0, fade, dtype=np.float32)
    return np.concatenate([kept, np.zeros(int(_PAUSE_S * rate), np.float32)])


FOLDER: Final = "embeddings"


@dataclass(frozen=True)
class VoiceCache:
    """keys, values: [layers, rows, kv_heads, head_dim]. spans: each voice's rows."""

    keys: Tensor
    values: Tensor
    spans: Mapping[str, range]

    def attend(self, attend: Attend, rows: Tensor, kept: Tensor) -> Attend:
        """An attention in which tokens that are `kept` [tokens] have the keys and values of `rows`
        [tokens] int64.
        """
        index, here = rows.where(kept, 0), kept[:, None, None]

        def attended(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            k = torch.where(here, self.keys[layer, index], k)
            return attend(layer, q, k, torch.where(here, self.values[layer, index], v))

        return attended


def load_voices(checkpoint: Path, c: PocketBackbone, device: str) -> VoiceCache | None:
    """The voices of a checkpoint's folder, None without any; raises CheckpointError."""
    paths = sorted((checkpoint / FOLDER).glob(f"*{TENSORS}"))
    if not paths:
        return None
    states, spans, at = [_read(path, c) for path in paths], {}, 0
    for path, state in zip(paths, states, strict=True):
        spans[path.name.removesuffix(TENSORS)] = range(at, at + state.shape[2])
        at += state.shape[2]
    keys, values = torch.cat(states, 2).to(device)
    return VoiceCache(keys, values, spans)


def _read(path: Path, c: PocketBackbone) -> Tensor:
    """[2, layers, positions, kv_heads, head_dim] float32."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is truncated or damaged ({error}): download it again"
        ) from error
    layers = [f"transformer.layers.{i}.self_attn/" for i in range(c.num_layers)]
    lengths = {_length(tensors, layer, path) for layer in layers}
    known = {f"{layer}{part}" for layer in layers for part in _PARTS}
    if len(lengths) != 1 or not tensors.keys() <= known:
        raise CheckpointError(f"{path} is a voice of another model: its layers differ")
    (length,) = lengths
    return torch.stack([_state(tensors[f"{layer}cache"], length, c, path) for layer in layers], 1)


_PARTS: Final = ("cache", "offset", "current_end", "pad")


def _length(tensors: Mapping[str, Tensor], layer: str, path: Path) -> int:
    """Positions of a layer: older files have a tensor of that length instead of the number."""
    if f"{layer}cache" not in tensors:
        raise CheckpointError(f"{path} is a voice of another model: it lacks {layer}cache")
    if (offset := tensors.get(f"{layer}offset")) is not None:
        return int(offset.view(-1)[0]) if offset.numel() else 0
    end = tensors.get(f"{layer}current_end")
    return 0 if end is None else len(end)


def _state(cache: Tensor, length: int, c: PocketBackbone, path: Path) -> Tensor:
    heads: Sequence[int] = (c.kv_heads, c.head_dim)
    if cache.ndim != 5 or (*cache.shape[:2], *cache.shape[3:]) != (2, 1, *heads):
        raise CheckpointError(f"{path} is a voice of another model: keys of {list(cache.shape)}")
    found = cache[:, 0, :length].float()
    if not 0 < length <= cache.shape[2] or not found.isfinite().all():
        raise CheckpointError(f"{path} is damaged: it lacks keys and values of its positions")
    return found
