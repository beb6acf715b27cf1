"""Published voices: keys and values of the positions that a prompt begins with.

A voice's file has them of every layer, as the published weights compute them of its recording. They
are read into tables, from which a prompt's positions take theirs instead of computing any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ttscommon.engine.checkpoint import TENSORS, CheckpointError
from ttsfamilies.base.runners.computation import Attend
from ttsfamilies.pocket_tts.sizes import Backbone

FOLDER: Final = "embeddings"


@dataclass(frozen=True)
class Kept:
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


def load_voices(checkpoint: Path, c: Backbone, device: str) -> Kept | None:
    """The voices of a checkpoint's folder, None without any; raises CheckpointError."""
    paths = sorted((checkpoint / FOLDER).glob(f"*{TENSORS}"))
    if not paths:
        return None
    states, spans, at = [_read(path, c) for path in paths], {}, 0
    for path, state in zip(paths, states, strict=True):
        spans[path.name.removesuffix(TENSORS)] = range(at, at + state.shape[2])
        at += state.shape[2]
    keys, values = torch.cat(states, 2).to(device)
    return Kept(keys, values, spans)


def _read(path: Path, c: Backbone) -> Tensor:
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


def _state(cache: Tensor, length: int, c: Backbone, path: Path) -> Tensor:
    heads: Sequence[int] = (c.kv_heads, c.head_dim)
    if cache.ndim != 5 or (*cache.shape[:2], *cache.shape[3:]) != (2, 1, *heads):
        raise CheckpointError(f"{path} is a voice of another model: keys of {list(cache.shape)}")
    found = cache[:, 0, :length].float()
    if not 0 < length <= cache.shape[2] or not found.isfinite().all():
        raise CheckpointError(f"{path} is damaged: it lacks keys and values of its positions")
    return found
