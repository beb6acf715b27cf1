"""Steps of a model that answers: an id a step, a frame where the id is sound."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from ttscommon.wire.fields import Field
from ttscommon.wire.silence import SILENT
from ttsfamilies.base.lm.answers import BETWEEN, MOST_BETWEEN, NO_ID, TOKEN, AnswerIds
from ttsfamilies.base.lm.stepped import finished
from ttsfamilies.base.runners.computation import Attend, Out, Prompts, Rows, SlotTensors
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.sampling import Noise, Settings, draw_ids
from ttsfamilies.base.talker.base import NUMBER, REAL
from ttsfamilies.base.talker.lmstream import DRAWN

_MOVING: Final = ("step", "drawn", "over", "filled", BETWEEN)
# Per slot; subclasses may have more.
STATE: Final[Mapping[str, Field]] = {
    **dict.fromkeys(("step", "drawn", "over", "filled", "most", "seed", "top_k"), NUMBER),
    **dict.fromkeys(("temperature", "top_p"), REAL),
    BETWEEN: Field((MOST_BETWEEN,), "i8"),
}


class AnsweringModel(TalkerModel):
    """Subclasses have `ids` and `noise`, and compute what `hidden` and `logits` say. Their slots
    have STATE, and their streams are AnswerStreams.
    """

    fixed_prompts = True
    ids: AnswerIds

    @abstractmethod
    def hidden(
        self, ids: Tensor, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> Tensor:
        """[tokens] int64, DRAWN nowhere -> [tokens, dim]; more of a prompt is in its inputs."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, dim] -> [rows, vocabulary]."""

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        # Rows of padding may share a token with a real one.
        ids, last = rows.inputs["id"], rows.last[: rows.real]
        told = state["drawn"].index_select(0, rows.slots[: rows.real])
        ids = ids.index_copy(0, last, torch.where(ids[last] == DRAWN, told, ids[last]))
        hidden = self.hidden(ids, rows, state, attend)
        return self._draw(hidden[rows.last], rows, state, rows.samples)

    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        ids = state["drawn"].index_select(0, rows.slots)
        hidden = self.hidden(ids, rows, state, attend)
        return self._draw(hidden, rows, state, torch.ones_like(ids, dtype=torch.bool))

    def choose(
        self, logits: Tensor, rows: Rows, state: SlotTensors, noise: Noise
    ) -> tuple[Tensor, Tensor]:
        """Ids [rows], and whether each row's logits are finite."""
        del self
        named = (state[n].index_select(0, rows.slots) for n in ("temperature", "top_k", "top_p"))
        return draw_ids(logits, noise, 0, Settings(*named))

    def _ends(self, chosen: Tensor) -> Tensor:
        found = torch.zeros_like(chosen, dtype=torch.bool)
        for end in self.ids.ends:
            found = found | (chosen == end)
        return found

    def _draw(self, hidden: Tensor, rows: Rows, state: SlotTensors, samples: Tensor) -> Out:
        """Draw each row's next id, and move the rows' state on; all of its padding stays."""
        old = {name: state[name].index_select(0, rows.slots) for name in (*_MOVING, "most", "seed")}
        noise = self.noise(old["seed"], old["step"])
        chosen, finite = self.choose(self.logits(hidden), rows, state, noise)
        active = samples & (old["over"] == 0)
        code = chosen - self.ids.first
        stops = self._ends(chosen)
        sound = active & ~stops & (code >= 0) & (code < self.ids.codes)
        other = active & ~stops & ~sound
        at = torch.arange(MOST_BETWEEN, device=chosen.device) == old["filled"][:, None]
        between = torch.where(at & other[:, None], chosen[:, None], old[BETWEEN])
        filled = old["filled"] + other
        ended = active & (stops | (old["step"] + 1 >= old["most"]))
        silent = ~sound & ((other & (filled == MOST_BETWEEN)) | (ended & (filled > 0)))
        gained = sound | silent
        moved = {
            "step": old["step"] + active,
            "drawn": torch.where(active, chosen, old["drawn"]),
            "over": old["over"] + ended,
            "filled": filled.masked_fill(gained, 0),
            BETWEEN: between.masked_fill(gained[:, None], NO_ID),
        }
        frames = {
            TOKEN: code.masked_fill(~sound, 0).to(torch.int16),
            BETWEEN: between.to(torch.int32),
            SILENT: silent.to(torch.uint8),
        }
        said = gained, ended, samples & ~finite
        return finished(state, rows.slots, rows.real, moved, frames, said)
