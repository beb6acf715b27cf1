"""Pocket TTS's decoder in the engine: exact state within a passage, begun anew with each.

The reference decodes each passage by itself and fades its first 5 ms in, because a blank state
clicks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.wire.fields import Array, Arrays, Field, cut
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work
from ttsfamilies.base.codec.carried import CarriedState, decode_together
from ttsfamilies.base.codec.device_codec import DeviceCodec, Slice
from ttsfamilies.base.codec.room import DeviceLimits
from ttsfamilies.csm.mimi.config import context_frames
from ttsfamilies.pocket_tts.codec.net import LatentDecoder

# Convolutions over pieces of other lengths round otherwise.
_TOLERANCE: Final = 2
_FADES_A_SECOND: Final = 200
_PASSAGE: Final = "passage"
_NONE: Final = -1


@dataclass(eq=False)
class Stream:
    """state: behind the last frame. passage: of that frame, none at the beginning."""

    state: CarriedState
    passage: int = _NONE


class PocketCodec(Codec):
    """A loaded decoder. The latents say who speaks; the voice is not looked at."""

    def __init__(self, name: str, net: LatentDecoder) -> None:
        self._net, self.spec = net, spec_of(name, net)
        self._fade = _fade(self.spec)

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        del request, frame  # only distances matter
        return Stream(self._net.new_state())

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        waiting = [passages(work.frames, work.state.passage) for work in batch]
        states = [work.state.state for work in batch]
        sounds: list[list[Array]] = [[] for _ in batch]
        while some := [(i, part) for i, parts in enumerate(waiting) if (part := next(parts, None))]:
            for i, part in some:
                states[i] = self._net.new_state() if part.fresh else states[i]
            latents = [torch.from_numpy(part.frames["latent"].copy()) for _, part in some]
            found, after = decode_together(self._net, [states[i] for i, _ in some], latents)
            for (i, part), sound, state in zip(some, found, after, strict=True):
                states[i] = state
                sounds[i].append(_faded(sound.numpy(), self._fade, part.fresh))
        for work, state in zip(batch, states, strict=True):
            work.state.state, work.state.passage = state, last_passage(work)
        return [Decoded(np.concatenate([np.zeros(0, np.float32), *parts])) for parts in sounds]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket


@dataclass(eq=False)
class DeviceStream:
    """The host's part of a stream."""

    row: int
    passage: int = _NONE


class PocketOnDevice(DeviceCodec):
    """A loaded decoder, whose weights are on the device."""

    conditioning = {"loud": "f4"}  # noqa: RUF012 -- as its base declares

    def __init__(self, name: str, net: LatentDecoder, device: Device, room: DeviceLimits) -> None:
        self._net = net
        blank = {name: tensor[0] for name, tensor in net.new_state().named().items()}
        super().__init__(spec_of(name, net), device, room, blank)
        self._fade = torch.from_numpy(_fade(self.spec)).to(device.where)

    def open(self, request: SpeechRequest, frame: int = 0) -> DeviceStream:
        del request, frame
        return DeviceStream(self.resident.take())

    def pieces(self, work: Work) -> Sequence[Slice]:
        return [
            Slice(work.state.row, part.frames, part.fresh, {"loud": float(not part.fresh)})
            for part in passages(work.frames, work.state.passage)
        ]

    def launched(self, work: Work) -> None:
        work.state.passage = last_passage(work)

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        before = CarriedState.of(list(state.values()))
        samples, after = self._net.step(inputs["latent"], inputs["lengths"], before)
        count = len(self._fade)
        faded = samples[:, :count] * torch.maximum(self._fade, inputs["loud"][:, None])
        return {"samples": torch.cat((faded, samples[:, count:]), 1)}, after.named()


@dataclass(frozen=True)
class Part:
    """Frames of one passage. fresh: they are its first."""

    frames: Arrays
    fresh: bool


def passages(frames: Arrays, before: int) -> Iterator[Part]:
    """Frames divided where a passage begins; before: the passage of the frame before them."""
    of = frames[_PASSAGE].tolist()
    known = [before, *of]
    starts = [at for at in range(len(of)) if not at or of[at] != known[at]]
    for start, stop in zip(starts, [*starts[1:], len(of)], strict=bool(of)):
        yield Part(cut(frames, start, stop), fresh=of[start] != known[start])


def last_passage(work: Work) -> int:
    """Of the stream's last frame, when the work is done."""
    of = work.frames[_PASSAGE]
    return int(of[-1]) if len(of) else work.state.passage


def _fade(spec: CodecSpec) -> Array:
    return np.linspace(0, 1, spec.sample_rate // _FADES_A_SECOND, dtype=np.float32)


def _faded(samples: Array, fade: Array, fresh: bool) -> Array:
    if not fresh:
        return samples
    return np.concatenate([samples[: len(fade)] * fade, samples[len(fade) :]])


def spec_of(name: str, net: LatentDecoder) -> CodecSpec:
    """What the engine has to know of a decoder."""
    c = net.sizes
    return CodecSpec(
        name,
        "pocket_tts",
        c.sampling_rate,
        c.frame_samples,
        {"latent": Field((net.values,), "f4"), _PASSAGE: Field((), "i4")},
        context_frames=context_frames(c),
        tolerance=_TOLERANCE,
    )
