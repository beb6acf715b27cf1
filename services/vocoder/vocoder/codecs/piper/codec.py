"""Piper's generator in the engine: windows that are exact, a sentence at a time.

A frame's samples depend on so many frames to either side of it as the network reaches, within its
sentence. A stream keeps those and no other state; what it holds back is a window's right side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.piper import HOP, PiperConfig
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import Array, Field
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Work
from vocoder.codecs.piper.net import Generator

BEGINS: Final = "begins"
# Convolutions over windows of other lengths round otherwise, by half a step at the most.
_TOLERANCE: Final = 1


@dataclass
class Stream:
    """frame: the next one. done: frames whose samples were sent. recent: [frames, latent] float32
    before `frame`, with `begins` [frames] bool, where a sentence does.
    """

    told: Tensor | None
    frame: int
    done: int
    recent: Tensor
    begins: Tensor


class PiperCodec(Codec):
    """A loaded generator. speakers: what it is told of each, [speakers, channels, 1]."""

    def __init__(
        self, name: str, config: PiperConfig, net: Generator, speakers: Tensor | None
    ) -> None:
        self._net, self._told = net, speakers
        self._numbers = config.speakers()
        self._context = context = net.sizes.context
        self.spec = CodecSpec(
            name,
            "piper",
            config.audio.sample_rate,
            HOP,
            {"z": Field((net.sizes.latent,), "f4"), BEGINS: Field((), "u1", 2)},
            lag_samples=context * HOP,
            context_frames=2 * context,
            tolerance=_TOLERANCE,
            voices=config.voices(),
        )

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        number = self._numbers.get(request.voice)
        if number is None:
            raise UnknownVoice(f"this codec has no voice {request.voice!r}", param="voice")
        told = None if self._told is None else self._told[number : number + 1]
        none = torch.zeros(0, self._net.sizes.latent)
        done = max(0, frame - self._context)
        return Stream(told, frame, done, none, torch.zeros(0, dtype=torch.bool))

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        results = [self._advanced(work) for work in batch]
        for work, (stream, _) in zip(batch, results, strict=True):
            work.state.__dict__.update(vars(stream))
        return [Decoded(sound) for _, sound in results]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _advanced(self, work: Work) -> tuple[Stream, Array]:
        """The stream behind the work's frames, and the samples that are final by then."""
        old: Stream = work.state
        z = torch.cat((old.recent, torch.from_numpy(np.ascontiguousarray(work.frames["z"]))))
        flags = torch.from_numpy(work.frames[BEGINS].astype(bool))
        begins = torch.cat((old.begins, flags))
        end, base = old.frame + len(work), old.frame - len(old.recent)
        upto = max(old.done, end if work.final else end - self._context)
        # A state that was opened late has no frames for what its predecessor held back.
        unknown = max(0, min(base, upto) - old.done)
        parts = [np.zeros(unknown * HOP, np.float32)]
        for first, last in _sentences(begins):
            low, high = (min(max(at, old.done), upto) for at in (base + first, base + last))
            if low < high:
                parts.append(self._window(z, first, last, (low - base, high - base), old.told))
        sound = np.concatenate(parts)
        kept = max(0, upto - self._context - base)
        return Stream(old.told, end, upto, z[kept:], begins[kept:]), sound

    def _window(
        self, z: Tensor, first: int, last: int, wanted: tuple[int, int], told: Tensor | None
    ) -> Array:
        """Samples of the `wanted` frames of the sentence that `z` has from `first` to `last`."""
        low, high = wanted
        begin, end = max(first, low - self._context), min(last, high + self._context)
        device = self._net.conv_pre.weight.device
        sound = self._net(z[begin:end].T[None].to(device), told)[0]
        return sound[(low - begin) * HOP : (high - begin) * HOP].cpu().numpy()


def _sentences(begins: Tensor) -> list[tuple[int, int]]:
    """From where to where each sentence goes, of frames the first of which may be within one."""
    edges = [0, *(at for at in begins.nonzero()[:, 0].tolist() if at), len(begins)]
    return list(pairwise(edges))
