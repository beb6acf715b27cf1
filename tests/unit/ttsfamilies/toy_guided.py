"""A small family with guidance: a second branch that knows the voice and not the text.

Of three requests, by their seeds, two are guided; the third has one branch.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Decoder, DecoderConfig
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.request import IdsPrompt, WholeText, nothing_to_say, speakable
from ttsfamilies.base.lm.stepped import DrawnStep, SteppedModel, ids_of
from ttsfamilies.base.runners.computation import Attend, Prompts, Rows, SlotTensors
from ttsfamilies.base.sampling import Noise, Settings, draw_ids
from ttsfamilies.base.talker.base import NUMBER, CacheSpec, ModelSpec, Prepared
from ttsfamilies.base.talker.blocks import of_branches
from ttsfamilies.base.talker.lmstream import DRAWN, REPLAY, LmStream
from ttsfamilies.base.talker.streams import SlotWriter

CODES: Final = 64
WEIGHT: Final = 1.5
# One block of the cache, which both branches begin with.
VOICE: Final = range(200, 216)
_NO_TEXT, _MOST_FRAMES = 0, 14
_CONFIG: Final = DecoderConfig(dim=32, layers=2, heads=2, kv_heads=1, head_dim=16, hidden=48)


class GuidedPrepared(WholeText):
    """All of a text is one passage: its characters behind the voice."""

    def __init__(self, request: SpeechRequest) -> None:
        self.request = request

    def prompts(self, text: str) -> Iterator[IdsPrompt]:
        if not speakable(text):
            raise nothing_to_say()
        yield IdsPrompt((*VOICE, *(1 + ord(c) % 190 for c in text)), _MOST_FRAMES, len(VOICE))


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
        return of_branches(*[self.passage.keys()] * self.branches)

    def positions(self, branch: int) -> Arrays:
        said = self.passage.array
        told = np.where(said >= VOICE.start, said, _NO_TEXT) if branch else said
        return {"id": np.concatenate([told, self.spoken["code"]])}

    def drawn(self) -> Arrays:
        return {"id": np.full(1, DRAWN)}

    def begin(self, write: SlotWriter) -> None:
        for name, value in (("frame", self.frames), ("seed", self._seed)):
            write(name, value)
        for name in ("drawn", "over"):
            write(name, 0)


class Guided(SteppedModel):
    """Ends with its id 0, or at its most frames."""

    examples = ("A longer one.", "So.")

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
            state=dict.fromkeys(("frame", "seed", "drawn", "over"), NUMBER),
            inputs={"id": NUMBER},
            caches={"backbone": CacheSpec(_CONFIG.layers, _CONFIG.heads, 1, _CONFIG.head_dim)},
            max_positions=256,
            branches=2,
        )

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> GuidedPrepared:
        return GuidedPrepared(request)

    def open(self, prepared: Prepared) -> GuidedStream:
        return GuidedStream(prepared.request)

    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        return self._hidden(ids_of(rows, state), rows, attend)

    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        assert rows.branches is not None
        return self._hidden(state["drawn"].index_select(0, rows.branches.owners), rows, attend)

    def _hidden(self, ids: Tensor, rows: Rows, attend: Mapping[str, Attend]) -> Tensor:
        hidden: Tensor = self._net(self._embedding(ids), rows.positions, attend["backbone"])
        return hidden

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        told, unconditioned = self._head(hidden).chunk(2)
        noise, settings = Noise(old["seed"], old["frame"]), Settings(torch.ones(len(told)))
        ids, finite = draw_ids(told + WEIGHT * (told - unconditioned), noise, 0, settings)
        gained = ids != 0
        moved = {"drawn": torch.where(gained, ids, old["drawn"]), "frame": old["frame"] + gained}
        return DrawnStep(moved, {"code": ids.to(torch.int16)}, gained, ~gained, finite)
