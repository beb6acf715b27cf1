"""A family whose frames come from their prompt, as small as one can be: every letter lasts one to
four frames, which follow from all letters of its sentence, and a frame is noise around its letter.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from tests.unit.ttsfamilies.tiny_vesper import Letters
from ttscommon.engine.device.device import Device
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import NOTHING, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Pause, Piece
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.runners.computation import Out, SlotTensors
from ttsfamilies.base.runners.model import SegmentModel, Segments
from ttsfamilies.base.sampling.noise import draw_keys, frame_keys, normals
from ttsfamilies.base.talker.base import ModelSpec, Prepared
from ttsfamilies.base.talker.segments import LENGTH, PLACE, REPLAY, Grid, SegmentStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.base.text.frontend import Word
from ttsfamilies.base.text.reader import Reader

MOST_IDS = 512
PASSES = 3
DIM = 4
RATE_HZ = 50.0
WINDOWS = Grid((3, 5, 8))
WHOLE = Grid()
_NUMBER = Field((), "i8")


class Letterwise(NamedTuple):
    """A sentence."""

    ids: tuple[int, ...]
    words: tuple[Word, ...]
    sentence: int
    frames: int = 1 << 20

    @property
    def length(self) -> int:
        return len(self.ids)


class ToyPrepared(Prepared):
    def __init__(self, request: SpeechRequest) -> None:
        self.request = request
        self._reader = Reader(Letters().phones)
        self._sentences = 0

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Letterwise]:
        for found in self._reader.read(pieces, final=final):
            if isinstance(found, Pause):
                continue
            ids = tuple(sum(map(ord, phone.symbol)) % 97 for phone in found.phones)
            yield Letterwise(ids, found.words, self._sentences)
            self._sentences += 1


class ToyStream(SegmentStream):
    frame = MappingProxyType({"z": Field((DIM,), "f4")})

    def __init__(self, prepared: ToyPrepared, grid: Grid, work: int) -> None:
        super().__init__(RATE_HZ, PASSES, grid)
        self._seed, self._work = prepared.request.seed, work

    def work(self, frames: int) -> int:
        return frames * self._work

    def begin(self, write: SlotWriter) -> None:
        segment: Letterwise = self.passage
        write("ids", segment.ids)
        write(LENGTH, segment.length)
        write("seed", self._seed)
        write("sentence", segment.sentence)


class Toy(SegmentModel):
    """grid: WHOLE gives all frames with the prompt. work: what a frame counts for."""

    examples = ("Something long.", "So.")

    def __init__(self, grid: Grid = WINDOWS, work: int = 1) -> None:
        torch.set_num_threads(1)
        self._grid, self._work = grid, work
        self.read_rows: list[int] = []  # of every pass
        self.spec = ModelSpec(
            name="m",
            family="toy",
            sample_rate=16_000,
            frame_rate_hz=RATE_HZ,
            voices=(Voice("slt", "SLT", "en"),),
            frame=ToyStream.frame,
            replay=REPLAY,
            state={
                "ids": Field((MOST_IDS,), "i8"),
                "hidden": Field((MOST_IDS, DIM), "f4"),
                "ends": Field((MOST_IDS,), "i8"),
                **dict.fromkeys((LENGTH, "seed", "sentence"), _NUMBER),
            },
            max_positions=MOST_IDS * PASSES * 8,
            window=grid.frames[-1] if grid.frames else 0,
        )

    def compute_on(self, device: Device | None) -> None:
        super().compute_on(device)
        self.apart = device is None

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> ToyPrepared:
        if request.voice != "slt":
            raise UnknownVoice("no such voice", param="voice")
        return ToyPrepared(request)

    def open(self, prepared: Prepared) -> ToyStream:
        assert isinstance(prepared, ToyPrepared)
        fixed = Grid(self._grid.frames[-1:]) if self.device is not None else self._grid
        return ToyStream(prepared, fixed, self._work)

    def read(self, index: int, segments: Segments, state: SlotTensors) -> None:
        """Letters attend to all others, behind them as well as before them."""
        slots, real = segments.slots, segments.real
        self.read_rows.append(len(slots))
        ids = state["ids"][slots, : real.shape[1]]
        if not index:
            state["hidden"][slots] = 0.0
        old = state["hidden"][slots, : real.shape[1]]
        one = torch.sin(ids[..., None] * torch.arange(1, DIM + 1))
        mean = (old * real[..., None]).sum(1, keepdim=True) / real.sum(1)[:, None, None]
        state["hidden"][slots, : real.shape[1]] = one + torch.tanh(old + mean)

    def begun(self, segments: Segments, state: SlotTensors) -> Out:
        slots, real = segments.slots, segments.real
        lasts = 1 + (state["hidden"][slots, : real.shape[1], 0].abs() * 10).long() % 4
        state["ends"][slots] = 1 << 30
        ends = (lasts * real).cumsum(1)
        state["ends"][slots, : real.shape[1]] = torch.where(real, ends, 1 << 30)
        if self._grid.frames:
            return self.nothing(len(slots), slots.device)
        return self.frames(slots, torch.zeros_like(slots), int(ends[:, -1].max()), state)

    def frames(self, slots: Tensor, starts: Tensor, count: int, state: SlotTensors) -> Out:
        at = starts[:, None] + torch.arange(count)
        length = state[LENGTH][slots]
        ends = state["ends"][slots]
        total = ends.gather(1, (length - 1).clamp(min=0)[:, None])
        place = torch.searchsorted(ends, at, right=True).clamp(max=MOST_IDS - 1)
        keys = draw_keys(frame_keys(state["seed"][slots], state["sentence"][slots])[:, None], at)
        noise = normals(keys.reshape(-1), DIM).view(*at.shape, DIM)
        hidden = state["hidden"][slots].gather(1, place[..., None].expand(-1, -1, DIM))
        z = hidden + 0.1 * noise
        gained = (total[:, 0] - starts).clamp(0, count)
        ended = starts + count >= total[:, 0]
        bad = ~z.isfinite().flatten(1).all(1)
        return Out({"z": z, PLACE: place}, gained, ended, bad)

    def no_frames(self, rows: int) -> dict[str, Tensor]:
        window = 0 if self.device is None else self.spec.window
        place = torch.zeros(rows, window, dtype=torch.int64)
        return {"z": torch.zeros(rows, window, DIM), PLACE: place}


at_once = partial(Toy, WHOLE)
