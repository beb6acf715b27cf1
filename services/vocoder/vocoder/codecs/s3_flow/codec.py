"""S3 tokens in the engine: solved a stretch at a time, a step a launch, and then sounded.

By default a stream carries what the flow goes on from while there is memory for it, and has it
computed again otherwise: both are exact (docs/decisions/0121).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Arrays, Field, cut, rows
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Due, Work
from vocoder.codecs.s3_flow.flow import FlowNet
from vocoder.codecs.s3_flow.noise import Draws, begin, fixed, fresh
from vocoder.codecs.s3_flow.passage import Passage, Prompt, begun, blank, grown, stepped
from vocoder.codecs.s3_flow.sizes import (
    CHUNK,
    FRAME_SAMPLES,
    LOOKAHEAD,
    MEL_FRAMES,
    SAMPLE_RATE,
    TOKEN_SAMPLES,
    UNetSizes,
)
from vocoder.codecs.s3_flow.sound import Drawn, Sound
from vocoder.codecs.s3_flow.source import Phase
from vocoder.codecs.s3_flow.weights import Networks

TOKENS: Final = 6561
# Batches and windows of other lengths round otherwise.
_TOLERANCE: Final = 4
_FADE: Final = SAMPLE_RATE // 50
_PASSAGE: Final = "passage"
_NONE: Final = np.zeros(0, np.float32)


@dataclass(eq=False)
class S3Stream:
    """frame: the next one. passage: the one that frames are of; it begins when frames come."""

    draws: Draws
    frame: int
    prompt: Prompt | None = None
    passage: Passage | None = None
    of: int = -1


@dataclass(eq=False)
class S3News:
    """What a launch makes of a stream, which has it when all of the launch is done."""

    state: S3Stream
    frame: int = 0
    passage: Passage | None = None
    of: int = -1

    def __post_init__(self) -> None:
        self.frame, self.passage, self.of = self.state.frame, self.state.passage, self.state.of


class S3Flow(Codec):
    """Loaded networks. memory: bytes that streams may carry together."""

    silences = True

    def __init__(
        self,
        name: str,
        family: str,
        nets: Networks,
        memory: int,
        voice: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self._flow, self._own, self._memory = nets.flow, nets.own, memory
        self._sound = Sound(nets.hift, nets.phase)
        self._device = nets.flow.input_embedding.weight.device
        self._voice, self._carried = voice, dict[int, int]()
        self.spec = spec_of(name, family, nets, self._sound.lag)
        self.silences = not self.spec.left

    # streams

    def open(self, request: SpeechRequest, frame: int = 0) -> S3Stream:
        mels = self._flow.sizes.mels
        return S3Stream((fresh if self._own else fixed)(request.seed, mels), frame)

    def conditions(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """See Codec. Without a recording, a checkpoint's own voice."""
        found = super().conditions(request, self._voice if reference is None else reference)
        assert found is not None
        if rows({"mel": found["mel"]}) != MEL_FRAMES * len(found["token"]):
            raise MalformedMessage("a recording's mel frames are two a token")
        return found

    def tell(self, state: S3Stream, conditions: Arrays) -> None:
        tokens, mel, speaker = (
            torch.from_numpy(np.ascontiguousarray(conditions[name])).to(self._device)
            for name in ("token", "mel", "speaker")
        )
        dtype = self._flow.input_embedding.weight.dtype
        with torch.inference_mode():
            told = self._flow.speaker(speaker[0].to(dtype))
        state.prompt = Prompt(tokens.long(), mel.mT.to(dtype), told)

    def close(self, state: S3Stream) -> None:
        self._carried.pop(id(state), None)

    @property
    def room(self) -> tuple[int, int]:
        """See Codec."""
        each = self.spec.state_bytes
        held = sum(self._carried.values())
        return max(0, self._memory - held) // each, self._memory // each

    def due(self, state: S3Stream, frames: Arrays, *, ended: bool) -> Due | None:
        passage = state.passage
        if passage is not None and passage.work is not None:
            return passage.work.due
        if passage is not None and self._another(state, frames):
            return None if passage.closed else Due(0, closes=True)
        count = self._of_one(frames)
        ended = ended or count < rows(frames)
        if passage is None:
            if not count:
                return None
            passage = self._blank(state, state.frame)
        if not count and not (ended and passage.waiting and not passage.closed):
            return None
        hop = passage.hop(self._sound.lag) + LOOKAHEAD - passage.waiting
        if count > hop or (count == hop and not ended):
            return Due(hop, closes=False)
        return Due(count, closes=True) if ended else None

    def _another(self, state: S3Stream, frames: Arrays) -> bool:
        """Whether a passage follows the present one."""
        known = _PASSAGE in self.spec.frame and rows(frames) > 0
        return known and int(frames[_PASSAGE][0]) != state.of

    def _of_one(self, frames: Arrays) -> int:
        """How many of the first frames are of one passage."""
        if not rows(frames) or _PASSAGE not in self.spec.frame:
            return rows(frames)
        others = np.flatnonzero(frames[_PASSAGE] != frames[_PASSAGE][0])
        return int(others[0]) if len(others) else rows(frames)

    def _blank(self, state: S3Stream, frame: int) -> Passage:
        if state.prompt is None:
            raise MalformedMessage("a stream without a recording")
        where = begin(state.draws, self._sound.net.sizes.harmonics, self._device)
        if self._sound.phase is not Phase.PACE:
            where = torch.zeros_like(where)
        return blank(self._flow, frame, state.prompt, self._sound.window(where))

    # launches

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        news = [S3News(work.state) for work in batch]
        self._advance(
            [pair for pair in zip(news, batch, strict=True) if pair[1].segment is not None]
        )
        found = [
            self._heard(new, work) if work.segment is None else self._prepared(new, work)
            for new, work in zip(news, batch, strict=True)
        ]
        for new in news:
            self._commit(new)
        return found

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket

    def _commit(self, new: S3News) -> None:
        state, passage = new.state, new.passage
        state.frame, state.of, state.passage = new.frame, new.of, passage
        self._carried[id(state)] = 0 if passage is None else passage.kept.nbytes

    def _advance(self, pairs: Sequence[tuple[S3News, Work]]) -> None:
        """A step of every stretch, of those that begin the first."""
        begins = []
        for new, work in pairs:
            assert work.segment is not None
            if new.passage is None or new.passage.work is None:
                begins.append((new, work.segment, Due(rows(work.segment), self._closes(work))))
        self._begin(begins)
        self._step([new for new, _ in pairs])

    def _closes(self, work: Work) -> bool:
        return work.final or bool(self.spec.left)

    def _begin(self, begins: Sequence[tuple[S3News, Arrays, Due]]) -> None:
        works, prompts, draws = [], [], []
        solvable = []
        for new, frames, due in begins:
            if new.passage is None:
                new.passage = self._blank(new.state, new.frame)
                new.of = int(frames[_PASSAGE][0]) if _PASSAGE in frames else 0
            tokens = torch.from_numpy(frames["token"].astype(np.int64)).to(self._device)
            new.passage, end = grown(self._flow, new.passage, tokens, due)
            if end > new.passage.solved:
                assert new.state.prompt is not None
                solvable.append(new)
                works.append((new.passage, due, end))
                prompts.append(new.state.prompt)
                draws.append(new.state.draws)
        if not works:
            return
        after = begun(self._flow, works, prompts, draws)
        for new, passage in zip(solvable, after, strict=True):
            new.passage = passage

    def _step(self, news: Sequence[S3News]) -> None:
        working = [(new, new.passage) for new in news if new.passage is not None]
        if not working:
            return
        after = stepped(self._flow, [passage for _, passage in working])
        for (new, _), passage in zip(working, after, strict=True):
            new.passage = passage if passage.work else self._bounded(new.state, passage)

    def _bounded(self, state: S3Stream, passage: Passage) -> Passage:
        """A passage without what it carries where there is no room for it."""
        others = sum(held for key, held in self._carried.items() if key != id(state))
        if passage.closed or others + passage.kept.nbytes > self._memory:
            return passage.forgetful(self._flow)
        return passage

    def _prepared(self, new: S3News, work: Work) -> Decoded:
        passage = new.passage
        assert passage is not None
        if passage.work is not None:
            return Decoded(_NONE, prepared=False)
        if work.segment is not None and not rows(work.segment) and passage.closed:
            return Decoded(_samples(self._flushed(new)), ended=True)
        return Decoded(_NONE)

    # frames that are heard

    def _heard(self, new: S3News, work: Work) -> Decoded:
        parts: list[Tensor] = []
        if work.silent:
            parts += [self._flushed(new), torch.zeros(len(work) * TOKEN_SAMPLES)]
            new.frame += len(work)
            return Decoded(_samples(*parts), ended=True)
        frames, ended = work.frames, False
        while rows(frames):
            if new.passage is not None and self._another_than(new.of, frames):
                parts.append(self._flushed(new))
            count = self._of_one(frames)
            last = count == rows(frames)
            closes = not last or work.final or self._whole(frames, count)
            parts.append(self._sounded(new, cut(frames, 0, count), closes=closes))
            ended = new.passage is None
            frames = cut(frames, count, rows(frames))
        if work.final:
            parts.append(self._flushed(new))
        return Decoded(_samples(*parts), ended=ended)

    def _another_than(self, of: int, frames: Arrays) -> bool:
        return _PASSAGE in frames and int(frames[_PASSAGE][0]) != of

    def _whole(self, frames: Arrays, count: int) -> bool:
        return bool(self.spec.left) and int(frames[self.spec.left][count - 1]) == 0

    def _sounded(self, new: S3News, frames: Arrays, *, closes: bool) -> Tensor:
        """The samples of a passage's next frames; what was not prepared is solved at once."""
        self._finish(new)
        known = 0 if new.passage is None else len(new.passage.tokens) - new.passage.prompt
        taken = 0 if new.passage is None else new.passage.taken
        missing = taken + rows(frames) - known
        if missing > 0:
            fresh_ = cut(frames, rows(frames) - missing, rows(frames))
            self._solve(new, fresh_, closes=closes)
        passage = new.passage
        assert passage is not None
        new.frame += rows(frames)
        passage = new.passage = replace(passage, taken=taken + rows(frames))
        if passage.closed and passage.taken == len(passage.tokens) - passage.prompt:
            return self._flushed(new)
        return self._shown(new, self._upto(passage))

    def _upto(self, passage: Passage) -> int:
        """Mel frames whose samples are due when so many frames were taken."""
        if self.spec.left:
            return passage.taken * MEL_FRAMES
        return max(0, passage.taken - LOOKAHEAD) * MEL_FRAMES - self._sound.lag

    def _flushed(self, new: S3News) -> Tensor:
        """All that is held back of the passage, which is over."""
        passage = new.passage
        if passage is None:
            return torch.zeros(0)
        self._finish(new)
        if not passage.closed:
            self._solve(new, self.spec.none(), closes=True)
        sound = self._shown(new, len(new.passage.tokens) * MEL_FRAMES)
        new.passage = None
        return sound

    def _finish(self, new: S3News) -> None:
        while new.passage is not None and new.passage.work is not None:
            self._step([new])

    def _solve(self, new: S3News, frames: Arrays, *, closes: bool) -> None:
        """All of these frames at once, as far as they can be."""
        self._begin([(new, frames, Due(rows(frames), closes))])
        self._finish(new)

    def _shown(self, new: S3News, upto: int) -> Tensor:
        """What HiFT makes of the mel frames up to `upto` of the passage, as far as it can."""
        passage = new.passage
        assert passage is not None
        known = passage.mel.shape[1]
        count = max(0, min(upto + self._sound.lag - passage.shown, known))
        passage = replace(passage, mel=passage.mel[:, count:], shown=passage.shown + count)
        window, sound = self._sound.advance(
            passage.window,
            new.passage.mel[:, :count],
            self._noise(new.state.draws, passage.first * TOKEN_SAMPLES),
            upto=upto,
            complete=passage.closed and passage.work is None and count == known,
        )
        at = passage.window.sent * FRAME_SAMPLES
        new.passage = replace(passage, window=window)
        return _faded(sound, at) if self._own else sound

    def _noise(self, draws: Draws, begin_: int) -> Drawn:
        """Of a passage's samples; begin_: the stream's sample that it begins with."""
        drawn = draws.uniform if self._sound.phase is Phase.HELD else draws.normal
        harmonics = range(self._sound.net.sizes.harmonics)

        def noise(first: int, samples: int) -> Tensor:
            parts = [drawn(i, begin_ + first, samples, self._device) for i in harmonics]
            return torch.stack(parts).double()

        return noise


def _samples(*parts: Tensor) -> np.ndarray:
    return np.concatenate([_NONE, *(part.float().cpu().numpy() for part in parts)])


def _faded(sound: Tensor, at: int) -> Tensor:
    """Chatterbox's passages begin with silence and a fade, against spill from the recording.

    at: the passage's sample that `sound` begins with.
    """
    if at >= 2 * _FADE:
        return sound
    rise = (torch.cos(torch.linspace(torch.pi, 0, _FADE)) + 1) / 2
    whole = torch.cat((torch.zeros(_FADE), rise)).to(sound)[at : at + len(sound)]
    return torch.cat((sound[: len(whole)] * whole, sound[len(whole) :]))


def spec_of(name: str, family: str, nets: Networks, lag: int) -> CodecSpec:
    """What the engine has to know of networks; lag: mel frames that HiFT holds back."""
    sizes, whole = nets.flow.sizes, not nets.flow.chunk
    frame = {"token": Field((), "i2", TOKENS)}
    if nets.own:
        frame |= {_PASSAGE: Field((), "i4"), "left": Field((), "i4")}
    held = 0 if whole else LOOKAHEAD * TOKEN_SAMPLES + lag * FRAME_SAMPLES
    return CodecSpec(
        name,
        family,
        SAMPLE_RATE,
        TOKEN_SAMPLES,
        frame,
        lag_samples=held,
        context_frames=0,
        tolerance=_TOLERANCE,
        conditions={
            "token": Field((), "i2", TOKENS),
            "mel": Field((sizes.mels,), "f4"),
            "speaker": Field((sizes.speaker,), "f4"),
        },
        left="left" if whole else "",
        solver_steps=nets.flow.steps,
        most_together=2 * CHUNK,
        state_bytes=state_bytes(nets.flow),
    )


def state_bytes(net: FlowNet) -> int:
    """Of keys and values that a frame adds to what a stream carries."""
    size, c = net.input_embedding.weight.element_size(), net.sizes
    e = c.estimator
    layers = e.layers * (e.middle + 2) if isinstance(e, UNetSizes) else e.layers
    values = 2 * MEL_FRAMES * layers * e.inner * net.steps * net.rows
    if c.encoder is not None:
        values += 2 * c.width * (c.encoder.layers + MEL_FRAMES * c.encoder.up_layers)
    return values * size
