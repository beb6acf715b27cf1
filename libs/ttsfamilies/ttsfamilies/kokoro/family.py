"""Kokoro in the engine: a segment's symbols in, all of its frames out.

A frame is small: which symbol it is of, its pitch and energy. What the symbols sound like is
computed by the vocoder, from the same symbols (docs/decisions/model-families.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.fields import NOTHING, Array, Derived, Field
from ttscommon.wire.lookups import PhonesFound
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.runners.computation import Out, SlotTensors
from ttsfamilies.base.runners.model import SegmentModel, Segments
from ttsfamilies.base.talker.base import ModelSpec, not_cloning, stated
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.base.talker.segments import LENGTH, PLACE, REPLAY
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.reader import utterances_of
from ttsfamilies.kokoro.facts import FAMILY
from ttsfamilies.kokoro.net import KokoroProsody, load_net
from ttsfamilies.kokoro.request import (
    SPEEDS,
    KokoroPrepared,
    KokoroStream,
    Read,
    checked,
    spoken,
    way_of,
    ways_of,
)
from ttsfamilies.kokoro.sizes import SAMPLE_RATE, Voices, frame_of

# ALBERT's layers in a pass: some 100 ms of one core for the longest segment.
_LAYERS: Final = 3
_REMEMBERED_UTTERANCES: Final = 1024
# A segment is one chunk: nothing of it can be heard without the rest.
_CHUNKS: Final = ChunkSeconds(initial_s=0.0, regular_s=20.0, busy_growth=0.0)


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Kokoro:
    """A checkpoint's folder; raises CheckpointError."""
    if how.device is not None:
        raise CheckpointError(
            "Kokoro's talker runs on the CPU, where a segment takes it a tenth of a second; its"
            " vocoder may have a device"
        )
    net, english = load_net(folder), EnglishFrontend.load(how.lexicon)
    return Kokoro(name, net, Voices.load(folder, net.config), ways_of(english))


class Kokoro(SegmentModel):
    """A loaded checkpoint. Segments are computed one by one, also where several wait."""

    signs = None

    def __init__(
        self, name: str, net: KokoroProsody, voices: Voices, ways: Mapping[str, Read]
    ) -> None:
        """ways: how texts are read, by language; voices of others are not served."""
        self._net, self._voices = net, voices
        self._vocabulary = checked(net.config.vocab)
        self._ways = {tag: lru_cache(_REMEMBERED_UTTERANCES)(read) for tag, read in ways.items()}
        self._passes = -(-net.config.plbert.num_hidden_layers // _LAYERS)
        self.spec = spec_of(name, net, voices, self._passes, ways)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> KokoroPrepared:
        not_cloning(request)
        pack = self.style(request.voice)
        read = self._ways[self._voices.language(request.voice)]
        pace = self._voices.pace(request.voice)
        return KokoroPrepared(request, read, pack, self._vocabulary, pace)

    def phones(self, text: str, language: str) -> PhonesFound:
        """See Family; symbols that the vocabulary lacks have no number."""
        read = self._ways[way_of(language, self._ways)]
        symbols = " ".join(spoken(one).symbols for one in utterances_of(text, read))
        ids = tuple(self._vocabulary[one] for one in symbols if one in self._vocabulary)
        return PhonesFound(symbols, ids)

    def style(self, voice: str) -> Array:
        """See Family."""
        return self._voices.pack(voice, [voice.id for voice in self.spec.voices])

    def open(self, prepared: KokoroPrepared) -> KokoroStream:
        return KokoroStream(self.spec.frame, self.spec.frame_rate_hz, self._passes)

    def read(self, index: int, segments: Segments, state: SlotTensors) -> None:
        """Some of ALBERT's layers."""
        (slot,), (count,) = segments.slots.tolist(), segments.lengths
        bert, hidden = self._net.bert, state["hidden"][slot, :count]
        x = hidden if index else bert.begin(state["ids"][slot, :count])
        state["hidden"][slot, :count] = bert.layers(x, index * _LAYERS, (index + 1) * _LAYERS)

    def begun(self, segments: Segments, state: SlotTensors) -> Out:
        """Durations, and the curves of all frames."""
        (slot,), (count,) = segments.slots.tolist(), segments.lengths
        hidden = state["hidden"][slot, :count]
        if not hidden.isfinite().all():
            one = torch.ones(1, dtype=torch.int64)
            return Out(self.no_frames(1), 0 * one, one.bool(), one.bool())
        pace, style = state["pace"][slot, :count], state["style"][slot]
        durations, curves = self._net(hidden, pace, style)
        place = torch.arange(count).repeat_interleave(durations)
        frames = {
            "symbol": state["ids"][slot][place],
            "row": state["row"][slot].expand(len(place)),
            "left": torch.arange(len(place) - 1, -1, -1),
            "curves": curves.unflatten(1, (len(place), -1)).transpose(0, 1).flatten(1),
            PLACE: place,
        }
        gained = torch.full((1,), len(place))
        bad = ~curves.isfinite().all()[None]
        return Out({n: t[None] for n, t in frames.items()}, gained, torch.ones(1).bool(), bad)

    def frames(self, slots: Tensor, starts: Tensor, count: int, state: SlotTensors) -> Out:
        raise NotImplementedError("all frames of a segment come with its prompt")

    def no_frames(self, rows: int) -> dict[str, Tensor]:
        fields = {**self.spec.frame, PLACE: REPLAY[PLACE]}
        return {n: torch.from_numpy(f.zeros(rows))[:, None][:, :0] for n, f in fields.items()}


def spec_of(
    name: str, net: KokoroProsody, voices: Voices, passes: int, ways: Mapping[str, Read]
) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    c, number = net.config, Field((), "i8")
    most = c.plbert.max_position_embeddings
    listed = tuple(voice for voice in voices.listed if voice.language in ways)
    return ModelSpec(
        **stated(FAMILY, name, SAMPLE_RATE, SAMPLE_RATE / c.frame_samples),
        voices=listed,
        frame=frame_of(c),
        replay=REPLAY,
        state={
            "ids": Field((most,), "i8"),
            "pace": Field((most,), "f4"),
            "style": Field((c.style_dim,), "f4"),
            "hidden": Field((most, c.plbert.hidden_size), "f4"),
            "row": number,
            LENGTH: number,
        },
        max_positions=most * passes,
        chunks=_CHUNKS,
        speeds=SPEEDS,
        blends=True,
    )
