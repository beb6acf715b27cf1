"""S3 tokens in the engine: solved a stretch at a time, a step a launch, and then sounded.

By default a stream carries what the flow goes on from while there is memory for it, and has it
computed again otherwise: both are exact (docs/decisions/streaming-flow.md). On a device steps are
recorded (docs/decisions/cuda-graphs.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Arrays, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, Decoded, Due, StateUse, Work
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.cosyvoice.s3_flow.flow import Networks
from ttsfamilies.cosyvoice.s3_flow.pages import S3Ticket
from ttsfamilies.cosyvoice.s3_flow.passage import (
    NONE,
    FlowPrompt,
    FlowPrompts,
    faded,
    follows,
    of_one,
    samples,
    spec_of,
)
from ttsfamilies.cosyvoice.s3_flow.recorded import carrying_of
from ttsfamilies.cosyvoice.s3_flow.sizes import (
    CHUNK,
    FRAME_SAMPLES,
    LOOKAHEAD,
    MEL_FRAMES,
    TOKEN_SAMPLES,
)
from ttsfamilies.cosyvoice.s3_flow.sound import (
    Asking,
    Drawn,
    Draws,
    Phase,
    Sound,
    fixed,
    fresh,
    together,
)
from ttsfamilies.cosyvoice.s3_flow.stretches import WINDOW, S3Stream, Stretches


class S3Flow(Codec):
    """Loaded networks. how: memory that streams may carry together, and the device, if any."""

    silences = True
    usual = 2 * CHUNK

    def __init__(
        self,
        name: str,
        family: str,
        nets: Networks,
        how: CodecOptions,
        voice: Arrays | None = None,
    ) -> None:
        self._flow, self._own = nets.flow, nets.own
        self._sound = Sound(nets.hift, nets.phase)
        self._device = nets.flow.input_embedding.weight.device
        self._voice, self._carrying = voice, carrying_of(nets.flow, how)
        self._stretches = Stretches(self._carrying, self._sound)
        self._prompts, self._keys = FlowPrompts(self._heard_of), itertools.count()
        self.spec = spec_of(name, family, nets, self._sound.lag)
        self.silences = not self.spec.left

    # streams

    def open(self, request: SpeechRequest, frame: int = 0) -> S3Stream:
        mels = self._flow.sizes.mels
        draws = (fresh if self._own else fixed)(request.seed, mels)
        return S3Stream(next(self._keys), draws, frame)

    def conditions(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """See Codec. Without a recording, a checkpoint's own voice."""
        found = super().conditions(request, self._voice if reference is None else reference)
        assert found is not None
        if rows({"mel": found["mel"]}) != MEL_FRAMES * len(found["token"]):
            raise MalformedMessage("a recording's mel frames are two a token")
        return found

    def tell(self, state: S3Stream, conditions: Arrays) -> None:
        state.prompt = self._prompts.of(conditions)
        if self._flow.windowed:
            bound = len(state.prompt.tokens) + WINDOW // MEL_FRAMES
            self._carrying.expect(state.key, bound)

    def _heard_of(self, conditions: Arrays) -> FlowPrompt:
        return self._carrying.run(lambda: self._prompt(conditions))

    @torch.inference_mode()
    def _prompt(self, conditions: Arrays) -> FlowPrompt:
        tokens, mel, speaker = (
            torch.from_numpy(np.ascontiguousarray(conditions[name])).to(self._device)
            for name in ("token", "mel", "speaker")
        )
        dtype = self._flow.input_embedding.weight.dtype
        told = self._flow.speaker(speaker[0].to(dtype))
        return FlowPrompt(tokens.long(), mel.mT.to(dtype), told)

    def close(self, state: S3Stream) -> None:
        self._carrying.keep(state.key, None)

    @property
    def room(self) -> tuple[int, int]:
        return self._carrying.room

    @property
    def state_use(self) -> StateUse:
        of = self._carrying
        return StateUse(of.held, of.memory, of.recomputed)

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
            passage = self._stretches.blank(state)
        if not count and not (ended and passage.waiting and not passage.closed):
            return None
        hop = passage.hop(self._sound.lag, from_prompt=self._flow.windowed)
        hop += LOOKAHEAD - passage.waiting
        if count > hop or (count == hop and not ended):
            return Due(hop, closes=False)
        return Due(count, closes=True) if ended else None

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        """See Codec. What a frame costs is told by two whole stretches."""
        self._carrying.record()
        super().warm_up(shapes)

    def example(self, request: SpeechRequest) -> S3Stream:
        """With a recording of a stretch's length."""
        counts, state = {"token": CHUNK, "mel": MEL_FRAMES * CHUNK}, self.open(request)
        told = {name: one.zeros(counts.get(name, 1)) for name, one in self.spec.conditions.items()}
        self.tell(state, told)
        return state

    # launches

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> S3Ticket:
        try:
            decoded = self._carrying.run(lambda: self._launched(batch))
        finally:  # a launch that failed changed no stream, and gives back what it took for it
            for work in batch:
                self._carrying.keep(work.state.key, work.state.passage)
            paths = self._carrying.took()
        return S3Ticket(decoded, paths)

    def collect(self, ticket: S3Ticket) -> Sequence[Decoded]:
        return ticket.decoded

    def paths(self, ticket: S3Ticket) -> Sequence[LaunchPath]:
        return ticket.paths

    def _launched(self, batch: Sequence[Work]) -> list[Decoded]:
        pairs = [(replace(work.state), work) for work in batch]
        self._advance([pair for pair in pairs if pair[1].segment is not None])
        found = together([self._done(*pair) for pair in pairs])
        for new, work in pairs:
            state = work.state
            state.frame, state.of, state.passage = new.frame, new.of, new.passage
        return found

    def _advance(self, pairs: Sequence[tuple[S3Stream, Work]]) -> None:
        """A step of every stretch, of those that begin the first."""
        begins = []
        for new, work in pairs:
            assert work.segment is not None
            if new.passage is None or new.passage.work is None:
                closes = work.final or bool(self.spec.left)
                begins.append((new, work.segment, Due(rows(work.segment), closes)))
        self._stretches.begin(begins)
        self._stretches.step([new for new, _ in pairs])

    def _done(self, new: S3Stream, work: Work) -> Asking[Decoded]:
        if work.segment is None:
            return self._heard(new, work)
        return self._prepared(new, work.segment)

    def _prepared(self, new: S3Stream, segment: Arrays) -> Asking[Decoded]:
        passage = new.passage
        assert passage is not None
        if passage.work is not None:
            return Decoded(NONE, prepared=False)
        if not rows(segment) and passage.closed:
            sound = yield from self._flushed(new)
            return Decoded(samples(sound), ended=True)
        return Decoded(NONE)

    # frames that are heard

    def _heard(self, new: S3Stream, work: Work) -> Asking[Decoded]:
        parts: list[Tensor] = []
        if work.silent:
            rest = yield from self._flushed(new)
            new.frame += len(work)
            return Decoded(samples(rest, torch.zeros(len(work) * TOKEN_SAMPLES)), ended=True)
        frames, ended = work.frames, False
        while rows(frames):
            if new.passage is not None and follows(new.of, frames):
                parts.append((yield from self._flushed(new)))
            count = of_one(frames)
            last = count == rows(frames)
            closes = not last or work.final or self._whole(frames, count)
            parts.append((yield from self._sounded(new, cut(frames, 0, count), closes=closes)))
            ended = new.passage is None
            frames = cut(frames, count, rows(frames))
        if work.final:
            parts.append((yield from self._flushed(new)))
        return Decoded(samples(*parts), ended=ended)

    def _whole(self, frames: Arrays, count: int) -> bool:
        return bool(self.spec.left) and int(frames[self.spec.left][count - 1]) == 0

    def _sounded(self, new: S3Stream, frames: Arrays, *, closes: bool) -> Asking[Tensor]:
        """The samples of a passage's next frames; what was not prepared is solved at once."""
        self._stretches.finish(new)
        known = 0 if new.passage is None else len(new.passage.tokens) - new.passage.prompt
        taken = 0 if new.passage is None else new.passage.taken
        missing = taken + rows(frames) - known
        if missing > 0:
            more = cut(frames, rows(frames) - missing, rows(frames))
            self._stretches.solve(new, more, closes=closes)
        passage = new.passage
        assert passage is not None
        new.frame += rows(frames)
        passage = new.passage = replace(passage, taken=taken + rows(frames))
        if passage.closed and passage.taken == len(passage.tokens) - passage.prompt:
            return (yield from self._flushed(new))
        return (yield from self._shown(new, self._upto(passage.taken)))

    def _upto(self, taken: int) -> int:
        """Mel frames whose samples are due when so many frames were taken."""
        if self.spec.left:
            return taken * MEL_FRAMES
        return max(0, taken - LOOKAHEAD) * MEL_FRAMES - self._sound.lag

    def _flushed(self, new: S3Stream) -> Asking[Tensor]:
        """All that is held back of the passage, which is over."""
        self._stretches.finish(new)
        if new.passage is None:
            return torch.zeros(0)
        if not new.passage.closed:
            self._stretches.solve(new, self.spec.none(), closes=True)
        sound = yield from self._shown(new, len(new.passage.tokens) * MEL_FRAMES)
        new.passage = None
        return sound

    def _shown(self, new: S3Stream, upto: int) -> Asking[Tensor]:
        """What HiFT makes of the mel frames up to `upto` of the passage, as far as it can."""
        passage = new.passage
        assert passage is not None
        known = passage.mel.shape[1]
        count = max(0, min(upto + self._sound.lag - passage.shown, known))
        window, sound = yield from self._sound.advance(
            passage.window,
            passage.mel[:, :count],
            self._noise(new.draws, passage.first * TOKEN_SAMPLES),
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
