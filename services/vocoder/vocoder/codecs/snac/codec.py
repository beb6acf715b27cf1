"""SNAC in the engine: windows that are exact.

A frame is decoded again with its successors, as often as its samples depend on what is still to
come: a stream keeps its last frames and no other state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import torch
from torch import Tensor

from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Work
from vocoder.codecs.snac.config import SLOTS
from vocoder.codecs.snac.net import SnacDecoder
from vocoder.codecs.snac.noise import Noise, keyed
from vocoder.codecs.snac.weights import load_decoder

# Convolutions over windows of other lengths round otherwise, by far less than half a step.
_TOLERANCE: Final = 1


@dataclass
class Stream:
    """frame: the next one. sent: samples so far. recent: [frames, 7] int64, before `frame`."""

    noise: Noise
    frame: int
    sent: int
    recent: Tensor


class Snac(Codec):
    """A loaded decoder. The codes say who speaks; the voice is not looked at."""

    def __init__(self, name: str, net: SnacDecoder) -> None:
        c = net.config
        self._net = net
        self.spec = CodecSpec(
            name,
            "snac",
            c.sampling_rate,
            c.frame_samples,
            {"codes": Field((sum(map(len, SLOTS)),), "i2", c.codebook_size)},
            lag_samples=c.reach,
            context_frames=c.context_frames,
            tolerance=_TOLERANCE,
        )

    @classmethod
    def load(cls, name: str, folder: Path, device: str = "cpu") -> Self:
        """Read a codec's folder; raises CheckpointError."""
        return cls(name, load_decoder(folder, device))

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        none = torch.zeros(0, sum(map(len, SLOTS)), dtype=torch.int64)
        return Stream(keyed(request.seed), frame, self.spec.samples(frame, final=False), none)

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        results = [self._advanced(work) for work in batch]
        for work, (stream, _) in zip(batch, results, strict=True):
            work.state.__dict__.update(vars(stream))
        return [Decoded(sound.cpu().numpy()) for _, sound in results]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _advanced(self, work: Work) -> tuple[Stream, Tensor]:
        """The stream behind the work's frames, and the samples that are final by then."""
        old: Stream = work.state
        codes = torch.from_numpy(work.frames["codes"].astype("int64"))
        whole = torch.cat((old.recent, codes))
        begin, end = old.frame - len(old.recent), old.frame + len(codes)
        upto = max(old.sent, self.spec.samples(end, final=work.final))
        sound = torch.zeros(0)
        if upto > old.sent:
            sound = self._window(whole, begin, old.noise, old.sent, upto)
        kept = whole[max(0, len(whole) - self._net.config.context_frames) :]
        return Stream(old.noise, end, upto, kept), sound

    def _window(self, codes: Tensor, begin: int, noise: Noise, first: int, last: int) -> Tensor:
        """Samples first .. last of a stream whose frames from `begin` on are `codes`."""
        device = next(self._net.parameters()).device
        start = begin * self.spec.samples_per_frame
        sound = self._net(codes.to(device), noise, begin)
        # A state that was opened late has no frames for what its predecessor held back.
        unknown = sound.new_zeros(max(0, min(start, last) - first))
        return torch.cat((unknown, sound[max(0, first - start) : max(0, last - start)]))
