"""Tacotron 2 in the engine: a mel frame a step, by LSTMs whose state is in the slot.

It has no cache. What a step needs of its past lies in the slot, overwritten by every step, and a
prompt computes it anew: the encoder reads the text, and a step follows for each frame that is
known. What the prenet drops is a function of (seed, frame, layer), so that these steps do what the
first ones did.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ttscommon.wire.fields import NOTHING, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.runners.computation import Attend, Out, Prompts, Rows, SlotTensors
from ttsfamilies.base.runners.kv import LEAST_ROWS
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.talker.base import NUMBER, REAL, ModelSpec, known_voice, not_cloning, stated
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.base.talker.guard import RunawaySigns, Stall
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.base.talker.segments import LENGTH, PLACE
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.piper.phones import Sentences
from ttsfamilies.tacotron2.facts import FAMILY, HifiganConfig
from ttsfamilies.tacotron2.net import AttendedText, TacotronNet, load_net
from ttsfamilies.tacotron2.request import (
    BEGINS,
    ENDS,
    MOST_FRAMES,
    MOST_IDS,
    PARAMETERS,
    REPLAY,
    Letters,
    TacotronPrepared,
    TacotronStream,
    frame_of,
)

SIGNS: Final = RunawaySigns(Stall(seconds=2.0, tokens=3), repeat_s=0.0)
"""Attention that stays where it is, or goes back: the furthest place does not move."""
_LAG_FRAMES: Final = 23
"""What postnet and generator look ahead, as published."""
_FIRST_FRAMES: Final = 32


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Tacotron2:
    """A checkpoint's folder; raises CheckpointError.

    Frames are fed back, so all of it computes in float32 on every device.
    """
    net, config = load_net(folder, how.where)
    return Tacotron2(name, net, config, Letters(EnglishFrontend.load(how.lexicon)))


class Tacotron2(TalkerModel):
    """A loaded checkpoint."""

    signs = SIGNS

    def __init__(
        self, name: str, net: TacotronNet, config: HifiganConfig, sentences: Sentences
    ) -> None:
        self._net, self._sentences = net, sentences
        self._carried = tuple(net.blank(MOST_IDS))
        self.spec = spec_of(name, net, config)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> TacotronPrepared:
        not_cloning(request)
        known_voice(request.voice or self.spec.voices[0].id, (self.spec.voices[0].id,))
        return TacotronPrepared(request, self._sentences)

    def open(self, prepared: TacotronPrepared) -> TacotronStream:
        return TacotronStream(prepared, self.spec.frame_rate_hz, self._net.sizes.mels)

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        """Read texts and go through frames that are known, a step for each; all rows at once.

        Reads back how far each row is, which on a device waits for the launch before.
        """
        ends = [last + 1 for last in rows.last[: rows.real].tolist()]
        begins = [0, *ends[:-1]]
        counts = [end - begin for begin, end in zip(begins, ends, strict=True)]
        starts = rows.positions[begins].tolist()
        self._begin(rows.slots[[row for row, start in enumerate(starts) if not start]], state)
        for step in range(max(counts)):
            now = [row for row, count in enumerate(counts) if step < count]
            enough = [*now, *[now[0]] * (LEAST_ROWS - len(now))]
            at = [begins[row] + step for row in enough]
            mel, positions = rows.inputs["mel"][at], rows.positions[at]
            self._step(rows.slots[enough], len(now), mel, positions, state)
        return self._frames(rows, rows.positions[rows.last], rows.samples, state)

    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        mel = state["mel"].index_select(0, rows.slots)
        self._step(rows.slots, rows.real, mel, rows.positions, state)
        return self._frames(rows, rows.positions, torch.ones_like(rows.slots).bool(), state)

    def _begin(self, slots: Tensor, state: SlotTensors) -> None:
        """Have the encoder read the slots' texts, on the CPU one by one, and forget the past."""
        together = 1 if self.device is None else max(1, len(slots))
        for first in range(0, len(slots), together):
            some = slots[first : first + together]
            lengths = state[LENGTH][some].tolist()
            ids = state["ids"][some, : max(lengths)]
            memory, keys = self._net.read(ids, lengths)
            for name, found in (("memory", memory), ("keys", keys)):
                state[name][some] = 0.0
                state[name][some, : found.shape[1]] = found
            for name in self._carried:
                state[name][some] = 0.0

    def _step(
        self, slots: Tensor, real: int, mel: Tensor, positions: Tensor, state: SlotTensors
    ) -> None:
        """Take the state of the first `real` rows a frame on; the others are there for company."""
        old = {name: state[name].index_select(0, slots) for name in self._carried}
        text = AttendedText(
            *(state[name].index_select(0, slots) for name in ("memory", "keys", LENGTH))
        )
        noise = self.noise(state["seed"][slots], state["begun"][slots] + positions)
        share = state["dropout"][slots][:, None]
        drawn = (noise.uniform(draw, width) for draw, width in enumerate(self._net.sizes.prenet))
        kept = [(one >= share) / (1 - share) for one in drawn]
        for name, value in self._net.step(mel, kept, text, old).items():
            state[name].index_copy_(0, slots[:real], value[:real])

    def _frames(self, rows: Rows, positions: Tensor, samples: Tensor, state: SlotTensors) -> Out:
        """A frame of each row that samples, where its state has come to."""
        slots, real = rows.slots, slice(rows.real)
        at = {name: state[name].index_select(0, slots) for name in ("speaking", "context")}
        mel, gate = self._net.frame(at)
        active = samples & (state["over"][slots] == 0)
        ended = active & (gate > state["least"][slots])
        place = state["weights"].index_select(0, slots).argmax(-1)
        frames = {
            "mel": mel,
            BEGINS: (positions == 0).to(torch.uint8),
            PLACE: place,
            ENDS: ended.to(torch.uint8),
        }
        told = torch.where(active[:, None], mel, state["mel"][slots])
        state["mel"].index_copy_(0, slots[real], told[real])
        state["over"].index_copy_(0, slots[real], (state["over"][slots] + ended)[real])
        bad = samples & ~mel.isfinite().all(-1)
        given = {name: value[real, None] for name, value in frames.items()}
        return Out(given, active.long()[real], ended[real], bad[real])


def spec_of(name: str, net: TacotronNet, config: HifiganConfig) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    c = net.sizes
    carried = {part: Field(shape, "f4") for part, shape in net.blank(MOST_IDS).items()}
    mel, rate_hz = Field((c.mels,), "f4"), config.frame_rate_hz
    return ModelSpec(
        **stated(FAMILY, name, config.sampling_rate, rate_hz),
        voices=(Voice(config.voice, config.voice.title(), "en-US"),),
        frame=frame_of(c.mels),
        replay=REPLAY,
        state={
            "ids": Field((MOST_IDS,), "i8"),
            "memory": Field((MOST_IDS, c.text), "f4"),
            "keys": Field((MOST_IDS, c.attention), "f4"),
            **carried,
            "mel": mel,
            **dict.fromkeys((LENGTH, "begun", "over", "seed"), NUMBER),
            **dict.fromkeys(("dropout", "least"), REAL),
        },
        inputs={"mel": mel},
        max_positions=MOST_FRAMES + 1,
        lag_frames=_LAG_FRAMES,
        chunks=ChunkSeconds(initial_s=_FIRST_FRAMES / rate_hz),
        parameters=PARAMETERS,
    )
