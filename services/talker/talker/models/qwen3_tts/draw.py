"""One id of each row, under its own settings, with noise that is a function of the frame.

Temperature, top-k and top-p as the official package has them (sampling.warp), and the Gumbel
maximum in place of its random generator. A row's draw depends on its own logits alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from talker.models.qwen3_tts.sampling import warp
from talker.sampling.draw import draw_keys, frame_keys, uniforms_of

# On the CPU, sorting a whole vocabulary takes longer than the network that made it.
_WINDOW: Final = 64

# (codebook, ids [rows, ids]) -> Gumbel noise [rows, ids]
Noise = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True)
class Settings:
    """[rows] each: temperature, 0 for greedy; top_k, 0 for all; top_p."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor

    def rows(self, index: Tensor) -> Settings:
        return Settings(self.temperature[index], self.top_k[index], self.top_p[index])


def keyed_noise(seed: Tensor, frame: Tensor) -> Noise:
    """Noise of one frame of each row, [rows] int64 each: a successor draws the same."""
    key = frame_keys(seed, frame)

    def noise(codebook: int, ids: Tensor) -> Tensor:
        return -torch.log(-torch.log(uniforms_of(draw_keys(key, codebook), ids)))

    return noise


def draw(logits: Tensor, settings: Settings, noise: Callable[[Tensor], Tensor]) -> Tensor:
    """[rows, vocabulary] float32 -> [rows] int64."""
    greedy = settings.temperature <= 0.0
    if logits.is_cpu:
        if bool(greedy.all()):
            return logits.argmax(-1)
        narrow = (settings.top_k > 0) & (settings.top_k < _WINDOW) & (logits.shape[1] > _WINDOW)
        if bool(narrow.all()):
            return _narrow(logits, settings, greedy, noise)
        if bool(narrow.any()):
            return _apart(logits, settings, narrow, noise)
    ids = torch.arange(logits.shape[1], device=logits.device).expand(logits.shape)
    return _drawn(logits, ids, settings, greedy, noise)


def _drawn(
    logits: Tensor,
    ids: Tensor,
    settings: Settings,
    greedy: Tensor,
    noise: Callable[[Tensor], Tensor],
) -> Tensor:
    temperature = torch.where(greedy, 1.0, settings.temperature)
    kept = warp(logits, temperature, settings.top_k, settings.top_p)
    noisy = torch.where(greedy[:, None], logits, kept + noise(ids))
    return ids.gather(1, noisy.argmax(-1, keepdim=True))[:, 0]


def _narrow(
    logits: Tensor, settings: Settings, greedy: Tensor, noise: Callable[[Tensor], Tensor]
) -> Tensor:
    """Rows whose top k lies well within the window, so that ties at its edge are seen as well."""
    values, ids = logits.topk(_WINDOW, -1)
    return _drawn(values, ids, settings, greedy, noise)


def _apart(
    logits: Tensor, settings: Settings, narrow: Tensor, noise: Callable[[Tensor], Tensor]
) -> Tensor:
    """Rows that need all of the vocabulary must not change how the others are computed."""
    drawn = torch.empty(len(logits), dtype=torch.int64)
    for chosen in (narrow, ~narrow):
        index = chosen.nonzero()[:, 0]

        def own(ids: Tensor, index: Tensor = index) -> Tensor:
            whole = ids.new_zeros(len(logits), ids.shape[1])
            return noise(whole.index_copy(0, index, ids))[index]

        drawn[index] = draw(logits[index], settings.rows(index), own)
    return drawn


__all__ = ["Noise", "Settings", "draw", "keyed_noise"]
