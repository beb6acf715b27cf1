"""S3 tokens in the engine: solved a stretch at a time, a step a launch, and then sounded.

By default a stream carries what the flow goes on from while there is memory for it, and has it
computed again otherwise: both are exact (docs/decisions/0121).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Arrays, cut, rows
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs.base import Codec, Decoded, Due, Work
from vocoder.codecs.s3_flow.given import NONE, faded, follows, of_one, samples
from vocoder.codecs.s3_flow.noise import Draws, begin, fixed, fresh
from vocoder.codecs.s3_flow.passage import FlowPrompt, Passage, begun, blank, grown, stepped
from vocoder.codecs.s3_flow.sizes import (
    CHUNK,
    FRAME_SAMPLES,
    LOOKAHEAD,
    MEL_FRAMES,
    TOKEN_SAMPLES,
)
from vocoder.codecs.s3_flow.sound import Drawn, Sound
from vocoder.codecs.s3_flow.source import Phase
from vocoder.codecs.s3_flow.spec import PASSAGE, spec_of
from vocoder.codecs.s3_flow.weights import Networks


@dataclass(eq=False)
class S3Stream:
    """frame: the next one. passage: the one that frames are of; it begins when frames come."""

    draws: Draws
    frame: int
    prompt: FlowPrompt | None = None
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
        voice: Arrays | None = None,
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
        state.prompt = FlowPrompt(tokens.long(), mel.mT.to(dtype), told)

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
        if passage is not None and follows(state.of, frames):
            return None if passage.closed else Due(0, closes=True)
        count = of_one(frames)
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

    def _blank(self, state: S3Stream, frame: int) -> Passage:
        if state.prompt is None:
            raise MalformedMessage("a stream without a recording")
        where = begin(state.draws, self._sound.net.sizes.harmonics, self._device)
        if self._sound.phase is not Phase.PACE:
            where = torch.zeros_like(where)
        return blank(self._flow, frame, state.prompt, self._sound.window(where))

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        """See Codec. What a frame costs is told by two whole stretches."""
        self._measured_by(2 * CHUNK, shapes)

    def measure(
        self, streams: int, frames: int, clock: Callable[[], float] = time.perf_counter
    ) -> float:
        """Seconds that passages of so many frames take now, one a stream."""
        request = SpeechRequest("measure", self.spec.name, "", "")
        states = [self.open(request) for _ in range(streams)]
        for state in states:
            self.tell(state, self._silence())
        zeros = {name: field.zeros(frames) for name, field in self.spec.frame.items()}
        started = clock()
        self.decode([Work(state, zeros, final=True) for state in states])
        took_s = clock() - started
        for state in states:
            self.close(state)
        return took_s

    def _silence(self) -> Arrays:
        """A recording of a stretch's length."""
        counts = {"token": CHUNK, "mel": MEL_FRAMES * CHUNK, "speaker": 1}
        return {name: one.zeros(counts[name]) for name, one in self.spec.conditions.items()}

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
                new.of = int(frames[PASSAGE][0]) if PASSAGE in frames else 0
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
            return Decoded(NONE, prepared=False)
        if work.segment is not None and not rows(work.segment) and passage.closed:
            return Decoded(samples(self._flushed(new)), ended=True)
        return Decoded(NONE)

    # frames that are heard

    def _heard(self, new: S3News, work: Work) -> Decoded:
        parts: list[Tensor] = []
        if work.silent:
            parts += [self._flushed(new), torch.zeros(len(work) * TOKEN_SAMPLES)]
            new.frame += len(work)
            return Decoded(samples(*parts), ended=True)
        frames, ended = work.frames, False
        while rows(frames):
            if new.passage is not None and follows(new.of, frames):
                parts.append(self._flushed(new))
            count = of_one(frames)
            last = count == rows(frames)
            closes = not last or work.final or self._whole(frames, count)
            parts.append(self._sounded(new, cut(frames, 0, count), closes=closes))
            ended = new.passage is None
            frames = cut(frames, count, rows(frames))
        if work.final:
            parts.append(self._flushed(new))
        return Decoded(samples(*parts), ended=ended)

    def _whole(self, frames: Arrays, count: int) -> bool:
        return bool(self.spec.left) and int(frames[self.spec.left][count - 1]) == 0

    def _sounded(self, new: S3News, frames: Arrays, *, closes: bool) -> Tensor:
        """The samples of a passage's next frames; what was not prepared is solved at once."""
        self._finish(new)
        known = 0 if new.passage is None else len(new.passage.tokens) - new.passage.prompt
        taken = 0 if new.passage is None else new.passage.taken
        missing = taken + rows(frames) - known
        if missing > 0:
            self._solve(new, cut(frames, rows(frames) - missing, rows(frames)), closes=closes)
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
        self._finish(new)
        if new.passage is None:
            return torch.zeros(0)
        if not new.passage.closed:
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
        window, sound = self._sound.advance(
            passage.window,
            passage.mel[:, :count],
            self._noise(new.state.draws, passage.first * TOKEN_SAMPLES),
            upto=upto,
            complete=passage.closed and passage.work is None and count == known,
        )
        at, mel = passage.window.sent * FRAME_SAMPLES, passage.mel[:, count:]
        new.passage = replace(passage, mel=mel, shown=passage.shown + count, window=window)
        return faded(sound, at) if self._own else sound

    def _noise(self, draws: Draws, start: int) -> Drawn:
        """Of a passage's samples; start: the stream's sample that it begins with."""
        drawn = draws.uniform if self._sound.phase is Phase.HELD else draws.normal
        harmonics = range(self._sound.net.sizes.harmonics)

        def noise(first: int, samples: int) -> Tensor:
            parts = [drawn(i, start + first, samples, self._device) for i in harmonics]
            return torch.stack(parts).double()

        return noise
