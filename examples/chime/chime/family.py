"""The talker: a letter a step. A note follows from its letter and the note before it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from chime import FRAME, NOTES, RATE
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Piece
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.request import plain_text
from ttsfamilies.base.runners.computation import Attend, Out, Prompts, Rows, SlotTensors
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.talker.base import ModelSpec, Prepared
from ttsfamilies.base.talker.lmstream import REPLAY, LmStream
from ttsfamilies.base.talker.options import ModelOptions
from ttsfamilies.base.talker.streams import SlotWriter

MOST, NUMBER = 256, Field((), "i8")


class Tune(NamedTuple):
    """Some letters, 0 .. 25; each is a frame."""

    letters: list[int]
    frames: int
    length: int = 1


class ChimePrepared(Prepared):
    def __init__(self, request: SpeechRequest) -> None:
        self.request = request

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Tune]:
        text = "".join(map(plain_text, pieces)).lower()
        letters = [ord(c) - ord("a") for c in text if "a" <= c <= "z"]
        for at in range(0, len(letters), MOST):
            yield Tune(letters[at : at + MOST], len(letters[at : at + MOST]))


class ChimeStream(LmStream):
    frame = MappingProxyType({"note": Field((), "i2", NOTES)})

    def positions(self, branch: int) -> Arrays:
        return {}

    def begin(self, write: SlotWriter) -> None:
        notes = self.spoken["note"]
        write("letters", self.passage.letters)
        write("at", len(notes))
        write("note", notes[-1] if len(notes) else 0)


class Chime(TalkerModel):
    signs = None  # a text lasts as long as it has letters

    def __init__(self, name: str) -> None:
        self.spec = ModelSpec(
            *(name, "chime", RATE, RATE / FRAME, (Voice("bell", "Bell", "mul"),)),
            *(ChimeStream.frame, REPLAY),
            state={"letters": Field((MOST,), "i8"), "at": NUMBER, "note": NUMBER},
        )

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> ChimePrepared:
        return ChimePrepared(request)

    def open(self, prepared: Prepared) -> ChimeStream:
        return ChimeStream()

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        return self._strike(rows.slots, state, rows.samples)

    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        return self._strike(rows.slots, state, torch.ones_like(rows.slots, dtype=torch.bool))

    def _strike(self, slots: Tensor, state: SlotTensors, struck: Tensor) -> Out:
        at, note = state["at"][slots], state["note"][slots]
        letter = state["letters"][slots].gather(1, at.clamp(max=MOST - 1)[:, None])[:, 0]
        state["note"][slots] = note = torch.where(struck, (2 * letter + note + 1) % NOTES, note)
        state["at"][slots] = at + struck
        none = torch.zeros_like(struck)
        return Out({"note": note[:, None].to(torch.int16)}, struck.long(), none, none)


def load(name: str, folder: Path, how: ModelOptions) -> Chime:
    return Chime(name)
