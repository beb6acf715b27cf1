"""A small family with guidance: a second branch that knows the voice and not the text.

Of three requests, by their seeds, two are guided; the third has one branch.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Decoder, DecoderConfig
from ttscommon.wire.errors import NothingToSay
from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Piece
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.request import plain_text
from ttsfamilies.base.runners.computation import Attend, Out, Prompts, Rows, SlotTensors
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.sampling import Noise, Settings, draw_ids
from ttsfamilies.base.talker.base import CacheSpec, ModelSpec, Prepared
from ttsfamilies.base.talker.blocks import keys, of_branches
from ttsfamilies.base.talker.lmstream import DRAWN, REPLAY, LmStream
from ttsfamilies.base.talker.streams import SlotWriter

CODES: Final = 64
WEIGHT: Final = 1.5
# One block of the cache, which both branches begin with.
VOICE: Final = np.arange(200, 216)
_NO_TEXT, _MOST_FRAMES = 0, 14
_NUMBER: Final = Field((), "i8")
_CONFIG: Final = DecoderConfig(dim=32, layers=2, heads=2, kv_heads=1, head_dim=16, hidden=48)


class GuidedPrompt(NamedTuple):
    """A text's characters behind the voice, as the first branch has them."""

    ids: Array

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def frames(self) -> int:
        return _MOST_FRAMES


class GuidedPrepared(Prepared):
    """All of a text is one passage."""

    def __init__(self, request: SpeechRequest) -> None:
        self.request, self._text = request, ""

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[GuidedPrompt]:
        self._text += "".join(map(plain_text, pieces))
        if final and not any(c.isalnum() for c in self._text):
            raise NothingToSay("the text holds nothing that can be spoken", param="input")
        if final:
            characters = [1 + ord(c) % 190 for c in self._text]
            yield GuidedPrompt(np.concatenate([VOICE, characters]))


class GuidedStream(LmStream):
    """See TalkerStream."""

    frame = MappingProxyType({"code": Field((), "i2", CODES)})

    def __init__(self, request: SpeechRequest) -> None:
        super().__init__(_MOST_FRAMES)
        self._seed = request.seed

    @property
    def branches(self) -> int:
        return 2 if self._seed % 3 else 1

    def prefix(self) -> Sequence[bytes]:
        return of_branches(*[keys([VOICE], len(VOICE))] * self.branches)

    def positions(self, branch: int) -> Arrays:
        said = self.passage.ids
        told = np.where(said >= VOICE[0], said, _NO_TEXT) if branch else said
        return {"id": np.concatenate([told, self.spoken["code"]])}

    def drawn(self) -> Arrays:
        return {"id": np.full(1, DRAWN)}

    def begin(self, write: SlotWriter) -> None:
        for name, value in (("frame", self.frames), ("seed", self._seed)):
            write(name, value)
        for name in ("drawn", "over"):
            write(name, 0)


class Guided(TalkerModel):
    """Ends with its id 0, or at its most frames."""

    examples = ("A longer one.", "So.")
    fixed_prompts = True

    def __init__(self) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self._embedding, self._net = nn.Embedding(256, _CONFIG.dim), Decoder(_CONFIG)
        self._head = nn.Linear(_CONFIG.dim, CODES, bias=False)
        for module in (self._embedding, self._net, self._head):
            module.eval().requires_grad_(False)
        self.spec = ModelSpec(
            *("m", "guided", 16_000, 25.0, (Voice("slt", "SLT", "en"),), GuidedStream.frame),
            replay=REPLAY,
            state=dict.fromkeys(("frame", "seed", "drawn", "over"), _NUMBER),
            inputs={"id": _NUMBER},
            caches={"backbone": CacheSpec(_CONFIG.layers, _CONFIG.heads, 1, _CONFIG.head_dim)},
            max_positions=256,
            branches=2,
        )

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> GuidedPrepared:
        return GuidedPrepared(request)

    def open(self, prepared: Prepared) -> GuidedStream:
        return GuidedStream(prepared.request)

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        assert rows.branches is not None
        ids = rows.inputs["id"]
        ids = torch.where(ids < 0, state["drawn"].index_select(0, rows.branches.owners), ids)
        hidden = self._net(self._embedding(ids), rows.positions, attend["backbone"])
        return self._draw(hidden, rows.last, rows, state, rows.samples)

    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        assert rows.branches is not None
        ids = state["drawn"].index_select(0, rows.branches.owners)
        hidden = self._net(self._embedding(ids), rows.positions, attend["backbone"])
        last = torch.arange(len(rows.slots))
        return self._draw(hidden, last, rows, state, torch.ones_like(last, dtype=torch.bool))

    def _draw(
        self, hidden: Tensor, last: Tensor, rows: Rows, state: SlotTensors, samples: Tensor
    ) -> Out:
        assert rows.branches is not None
        told, unconditioned = self._head(hidden[torch.cat((last, rows.branches.second))]).chunk(2)
        old = {name: state[name].index_select(0, rows.slots) for name in self.spec.state}
        settings = Settings(torch.ones(len(rows.slots)))
        noise = Noise(old["seed"], old["frame"])
        drawn, finite = draw_ids(told + WEIGHT * (told - unconditioned), noise, 0, settings)
        active = samples & (old["over"] == 0)
        ended = active & (drawn == 0)
        gained = active & ~ended
        real = slice(rows.real)
        moved = {
            "drawn": torch.where(gained, drawn, old["drawn"]),
            "frame": old["frame"] + gained,
            "over": old["over"] + ended,
        }
        for name, value in moved.items():
            state[name].index_copy_(0, rows.slots[real], value[real])
        frames = {"code": drawn[real, None].to(torch.int16)}
        return Out(frames, gained.long()[real], ended[real], (samples & ~finite)[real])
