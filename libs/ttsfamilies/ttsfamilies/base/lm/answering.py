"""Steps of a model that answers: an id a step, a frame where the id is sound."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from ttscommon.wire.fields import Field
from ttscommon.wire.silence import SILENT
from ttsfamilies.base.lm.stepped import DrawnStep, SteppedModel, ids_of
from ttsfamilies.base.lm.turns import BETWEEN, MOST_BETWEEN, NO_ID, TOKEN, AnswerIds
from ttsfamilies.base.runners.computation import Attend, Prompts, Rows, SlotTensors
from ttsfamilies.base.sampling import Noise, Settings, draw_ids
from ttsfamilies.base.talker.base import NUMBER, REAL

# Per slot; subclasses may have more.
STATE: Final[Mapping[str, Field]] = {
    **dict.fromkeys(("step", "drawn", "over", "filled", "most", "seed", "top_k"), NUMBER),
    **dict.fromkeys(("temperature", "top_p"), REAL),
    BETWEEN: Field((MOST_BETWEEN,), "i8"),
}


class AnsweringModel(SteppedModel):
    """Subclasses have `ids` and `noise`, and compute what `hidden` and `logits` say. Their slots
    have STATE, and their streams are AnswerStreams.
    """

    ids: AnswerIds

    @abstractmethod
    def hidden(self, ids: Tensor, rows: Rows, attend: Mapping[str, Attend]) -> Tensor:
        """[tokens] int64, DRAWN nowhere -> [tokens, dim]; more of a prompt is in its inputs."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, dim] -> [rows, vocabulary]."""

    def prompted(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        return self.hidden(ids_of(rows, state), rows, attend)

    def stepped(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Tensor:
        return self.hidden(state["drawn"].index_select(0, rows.slots), rows, attend)

    def choose(
        self, logits: Tensor, noise: Noise, old: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Ids [rows], and whether each row's logits are finite."""
        del self
        return draw_ids(logits, noise, 0, Settings.of(old))

    def _ends(self, chosen: Tensor) -> Tensor:
        found = torch.zeros_like(chosen, dtype=torch.bool)
        for end in self.ids.ends:
            found = found | (chosen == end)
        return found

    def drawn(
        self, hidden: Tensor, old: Mapping[str, Tensor], rows: Rows, state: SlotTensors
    ) -> DrawnStep:
        noise = self.noise(old["seed"], old["step"])
        chosen, finite = self.choose(self.logits(hidden), noise, old)
        code, stops = chosen - self.ids.first, self._ends(chosen)
        sound = ~stops & (code >= 0) & (code < self.ids.codes)
        other = ~stops & ~sound
        at = torch.arange(MOST_BETWEEN, device=chosen.device) == old["filled"][:, None]
        between = torch.where(at & other[:, None], chosen[:, None], old[BETWEEN])
        filled = old["filled"] + other
        ended = stops | (old["step"] + 1 >= old["most"])
        silent = ~sound & ((other & (filled == MOST_BETWEEN)) | (ended & (filled > 0)))
        gained = sound | silent
        moved = {
            "step": old["step"] + 1,
            "drawn": chosen,
            "filled": filled.masked_fill(gained, 0),
            BETWEEN: between.masked_fill(gained[:, None], NO_ID),
        }
        frames = {
            TOKEN: code.masked_fill(~sound, 0).to(torch.int16),
            BETWEEN: between.to(torch.int32),
            SILENT: silent.to(torch.uint8),
        }
        return DrawnStep(moved, frames, gained, ended, finite)
