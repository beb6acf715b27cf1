"""The cantor family: phones as a prefix, a monotonic pointer, codebook 0 in the recurrence.

Text becomes utterances (a clause or sentence each), an utterance becomes phones, and each
utterance is a sequence of its own in the cache: speaker, phones, then one position a frame.
Residual codebooks are chosen when a chunk is rendered, for all frames of all streams at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from talker.engine.sampling import key, sample
from talker.models.base import (
    Attend,
    CacheSpec,
    ModelSpec,
    Plan,
    Rendered,
    Slice,
    TalkerModel,
    TalkerStream,
)
from talker.models.cantor_net import CONTEXT, CantorConfig, CantorNet
from talker.models.cantor_stream import CantorStream, Frame
from talker.text.frontend import EnglishFrontend
from ttscommon.errors import UnknownVoice
from ttscommon.messages import SpeechRequest
from ttscommon.voice import VoiceFolder

T = TypeVar("T")

# A product of fewer rows takes another path in BLAS and rounds differently; see engine/kv.py.
_LEAST_ROWS: Final = 4
_MOST_ROWS: Final = 64
_ADVANCE_DRAW: Final = -1


@dataclass(frozen=True)
class SamplingDefaults:
    """How a voice is sampled unless a request says otherwise."""

    temperature: float = 0.7
    top_k: int = 50
    advance_temperature: float = 0.7
    residual_temperature: float = 0.7
    max_frames_per_phone: int = 25

    def __post_init__(self) -> None:
        if self.max_frames_per_phone < 1:
            raise ValueError("a phone lasts at least a frame")


class Cantor(TalkerModel):
    """A loaded cantor voice."""

    def __init__(
        self,
        spec: ModelSpec,
        net: CantorNet,
        frontend: EnglishFrontend,
        defaults: SamplingDefaults,
    ) -> None:
        self.spec = spec
        self._net = net.eval()
        self._frontend = frontend
        self._defaults = defaults
        self._speakers = {voice.id: index for index, voice in enumerate(spec.voices)}

    @classmethod
    def load(cls, name: str, voice: VoiceFolder) -> Cantor:
        """Read a checked voice folder's weights and lexicon."""
        net = CantorNet(CantorConfig(**voice.config["talker"]))
        weights = load_file(voice.talker_weights)
        net.load_state_dict({n: w.float() for n, w in weights.items()})
        spec = ModelSpec(
            name=name,
            family="cantor",
            sample_rate=voice.sample_rate,
            frame_rate_hz=voice.frame_rate_hz,
            voices=voice.voices,
            caches={"backbone": backbone_cache(net)},
            max_positions=net.config.positions,
        )
        defaults = SamplingDefaults(**voice.config["sampling"])
        return cls(spec, net, EnglishFrontend.load(voice.path), defaults)

    def open(self, request: SpeechRequest) -> CantorStream:
        speaker = self._speakers.get(request.voice)
        if speaker is None:
            known = ", ".join(self._speakers)
            raise UnknownVoice(f"no voice {request.voice!r}; there are {known}", param="voice")
        return CantorStream(request, speaker, self._frontend.phones, self.spec.frame_rate_hz)

    @torch.inference_mode()
    def step(self, batch: Sequence[Slice], attend: Mapping[str, Attend]) -> None:
        streams = [_cantor(part.stream) for part in batch]
        x, positions = self._inputs(batch)
        tokens = len(x)
        hidden = self._net.backbone(
            _at_least(x, _LEAST_ROWS),
            _at_least(positions, _LEAST_ROWS),
            _padded(attend["backbone"], tokens),
        )
        last = np.cumsum([part.plan.count for part in batch]) - 1
        hidden = _at_least(hidden[torch.from_numpy(last)], _LEAST_ROWS)
        advance = self._draw_advance(streams, hidden)
        code = self._draw_code(streams, hidden, advance)
        for row, stream in enumerate(streams):
            stream.accept(int(code[row]), int(advance[row]), hidden[row])

    @torch.inference_mode()
    def render(self, parts: Sequence[tuple[TalkerStream, int]]) -> list[Rendered]:
        taken = [(stream, *stream.take(count)) for stream, count in _streams(parts)]
        frames = [(stream, frame) for stream, some, _ in taken for frame in some]
        codes = [
            self._residuals(frames[first : first + _MOST_ROWS])
            for first in range(0, len(frames), _MOST_ROWS)
        ]
        rows = np.concatenate(codes)
        rendered, at = [], 0
        for _, some, words in taken:
            arrays = {
                "codes": rows[at : at + len(some)],
                "advance": np.array([frame.advance for frame in some], dtype=np.uint8),
            }
            rendered.append(Rendered(arrays, words))
            at += len(some)
        return rendered

    def _inputs(self, batch: Sequence[Slice]) -> tuple[Tensor, Tensor]:
        """Embeddings and positions of all tokens of the batch: [tokens, dim], [tokens]."""
        frames = _FrameInputs(self._net.config.bos)
        for part in batch:
            frames.add(_cantor(part.stream), part.plan)
        embedded = frames.embed(self._net)
        positions = torch.from_numpy(
            np.concatenate([np.arange(part.plan.start, part.plan.end) for part in batch])
        )
        if all(part.plan.start for part in batch):
            return embedded, positions
        parts: list[Tensor] = []
        for part, rows in zip(batch, torch.split(embedded, frames.counts), strict=True):
            if part.plan.start == 0:
                parts.append(self._prompt(_cantor(part.stream)))
            parts.append(rows)
        return torch.cat(parts), positions

    def _prompt(self, stream: CantorStream) -> Tensor:
        progress = stream.progress
        assert progress is not None
        phones = slice(1, 1 + progress.phones)
        symbols = torch.from_numpy(progress.symbols[phones])
        flags = torch.from_numpy(progress.flags[phones])
        return self._net.embed_prompt(symbols, flags, torch.tensor(stream.speaker))

    def _draw_advance(self, streams: Sequence[CantorStream], hidden: Tensor) -> Tensor:
        logits = self._net.advance_logits(hidden)
        for row, stream in enumerate(streams):
            assert stream.progress is not None
            if stream.progress.held[-1] + 1 >= self._defaults.max_frames_per_phone:
                logits[row, 0] = float("-inf")
        return self._draw(streams, logits, _ADVANCE_DRAW, self._defaults.advance_temperature, 0)

    def _draw_code(
        self, streams: Sequence[CantorStream], hidden: Tensor, advance: Tensor
    ) -> Tensor:
        logits = self._net.code0_logits(hidden, _at_least(advance, _LEAST_ROWS))
        return self._draw(streams, logits, 0, self._defaults.temperature, self._defaults.top_k)

    def _draw(
        self,
        streams: Sequence[CantorStream],
        logits: Tensor,
        codebook: int,
        temperature: float,
        top_k: int,
    ) -> Tensor:
        """One id a stream, [streams] int64, for the frame to come."""
        return sample(
            logits[: len(streams)],
            [key(s.seed, s.frames, codebook) for s in streams],
            temperature=[_or(s.sampling.temperature, temperature) for s in streams],
            top_k=[_or(s.sampling.top_k, top_k) for s in streams],
        )

    def _residuals(
        self, frames: Sequence[tuple[CantorStream, Frame]]
    ) -> np.ndarray[Any, np.dtype[np.int16]]:
        """[frames, codebooks] int16."""
        spare = max(0, _LEAST_ROWS - len(frames))
        hidden = torch.stack([frame.hidden for _, frame in frames])
        advance = torch.tensor([frame.advance for _, frame in frames] + [0] * spare)
        code = torch.tensor([frame.code for _, frame in frames] + [0] * spare)
        hidden = torch.cat([hidden, hidden.new_zeros(spare, hidden.shape[1])])

        def pick(logits: Tensor, codebook: int) -> Tensor:
            keys = [key(s.seed, f.index, codebook) for s, f in frames]
            ids = sample(
                logits[: len(frames)],
                keys,
                temperature=[self._defaults.residual_temperature] * len(frames),
                top_k=[self._defaults.top_k] * len(frames),
            )
            return torch.cat([ids, ids.new_zeros(spare)])

        residual = self._net.residuals(hidden, advance, code, pick)
        codes = torch.cat([code[:, None], residual], 1)[: len(frames)]
        return codes.numpy().astype(np.int16)


class _FrameInputs:
    """What the frames of a batch are told, collected over its streams and embedded at once."""

    def __init__(self, bos: int) -> None:
        self.counts: list[int] = []
        self._bos = bos
        self._previous: list[int] = []
        self._held: list[int] = []
        self._speakers: list[int] = []
        self._symbols: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        self._flags: list[np.ndarray[Any, np.dtype[np.int64]]] = []

    def add(self, stream: CantorStream, plan: Plan) -> None:
        """The stream's frames from the plan's start to the one to come."""
        progress = stream.progress
        assert progress is not None
        first = max(plan.start - progress.prompt, 0)
        self._previous += progress.codes[first - 1 :] if first else [self._bos, *progress.codes]
        self._held += progress.held[first:]
        around = np.array(progress.pointers[first:])[:, None] + np.arange(CONTEXT)
        self._symbols.append(progress.symbols[around])
        self._flags.append(progress.flags[around])
        self.counts.append(len(around))
        self._speakers += [stream.speaker] * len(around)

    def embed(self, net: CantorNet) -> Tensor:
        """[frames, dim]."""
        return net.embed_frame(
            torch.tensor(self._previous),
            torch.from_numpy(np.concatenate(self._symbols)),
            torch.from_numpy(np.concatenate(self._flags)),
            torch.tensor(self._held),
            torch.tensor(self._speakers),
        )


def backbone_cache(net: CantorNet) -> CacheSpec:
    """The cache that the net's backbone needs."""
    c = net.config
    return CacheSpec(c.layers, c.heads, c.heads, c.head_dim)


def _cantor(stream: TalkerStream) -> CantorStream:
    assert isinstance(stream, CantorStream)
    return stream


def _streams(parts: Sequence[tuple[TalkerStream, int]]) -> list[tuple[CantorStream, int]]:
    return [(_cantor(stream), count) for stream, count in parts]


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _at_least(x: Tensor, rows: int) -> Tensor:
    """Pad the first dimension with zeros up to `rows`."""
    missing = rows - len(x)
    return x if missing <= 0 else torch.cat([x, x.new_zeros(missing, *x.shape[1:])])


def _padded(attend: Attend, tokens: int) -> Attend:
    """`attend` for the first `tokens` rows only."""

    def attended(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out: Tensor = attend(layer, q[:tokens], k[:tokens], v[:tokens])
        return _at_least(out, len(q))

    return attended
