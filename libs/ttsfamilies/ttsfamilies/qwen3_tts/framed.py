"""Frames of a backbone's states: codebook 0, its 15 residual codes, and the books of a slot.

What Qwen3-TTS and Qwen3-Omni have in common, whatever tells the backbone of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch import Tensor

from ttscommon.wire.adapters import ADAPTER
from ttscommon.wire.fields import Field
from ttsfamilies.base.lm.depth import CodeDraw, Picks
from ttsfamilies.base.runners.computation import Out, SlotTensors, TwoPartComputation
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.sampling import Settings
from ttsfamilies.base.talker.base import NUMBER, REAL
from ttsfamilies.qwen3_tts.config import CODEBOOK0_SIZE, MIN_NEW_TOKENS, BackboneConfig
from ttsfamilies.qwen3_tts.frame import History, make_frame
from ttsfamilies.qwen3_tts.net import FrameNet
from ttsfamilies.qwen3_tts.sampling import Prohibitions
from ttsfamilies.qwen3_tts.stream import PADDED, TOLD


class FramedTalker(TalkerModel, TwoPartComputation):
    """The second part of prompts and steps. A subclass has the first; see TwoPartComputation."""

    fixed_prompts = True

    def make_frames_of(self, net: FrameNet, least: int = MIN_NEW_TOKENS) -> None:
        """To be called before anything is computed. least: see Prohibitions."""
        c, weight = net.config.talker_config, net.codec.weight
        self._frames = net
        self._never = Prohibitions.of(c, weight.device, least)
        self.cache_dtype = weight.dtype
        self.hidden = {
            "hidden": ((c.hidden_size,), weight.dtype),
            "use": ((), torch.int64),
            "samples": ((), torch.bool),
        }

    def rows(self, ids: Callable[[], Tensor]) -> AbstractContextManager[None]:
        """See AdaptingModel, for those that are."""
        del ids
        return nullcontext()

    def make_frames(
        self, slots: Tensor, real: int, state: SlotTensors, hidden: Mapping[str, Tensor]
    ) -> Out:
        """Make each row's frame, and move the rows' state on.

        Products take the padding along, for the sake of exactness; state leaves it out.
        """
        use, samples = hidden["use"], hidden["samples"]
        old = {name: state[name].index_select(0, slots) for name in _MOVING}
        history = History(old["codes"], old["seen"].bool(), old["frame"])
        with self.rows(lambda: state[ADAPTER].index_select(0, slots)):
            frame = make_frame(
                *(self._frames, self._never, hidden["hidden"], history),
                *(old["penalty"], self._picks(old)),
            )
        active = samples & (old["over"] == 0)
        gained = active & ~frame.ended
        new = {
            "codes": frame.history.codes,
            "seen": frame.history.seen.to(torch.uint8),
            "frame": frame.history.made,
        }
        kept = slice(real)
        for name, value in new.items():
            moved = torch.where(gained.view(-1, *[1] * (value.ndim - 1)), value, old[name])
            state[name].index_copy_(0, slots[kept], moved[kept])
        told = old["told"] + (active & (use == TOLD))
        state["told"].index_copy_(0, slots[kept], told[kept])
        over = (old["over"] > 0) | (active & frame.ended)
        state["over"].index_copy_(0, slots[kept], over.long()[kept])
        frames = {
            "codes": frame.history.codes[kept, None].to(torch.int16),
            "padded": (use == PADDED)[kept, None].to(torch.uint8),
        }
        ended = active & frame.ended
        return Out(frames, gained.long()[kept], ended[kept], (samples & frame.bad)[kept])

    def _picks(self, old: Mapping[str, Tensor]) -> CodeDraw:
        talker = Settings(old["temperature"], old["top_k"], old["top_p"])
        predictor = Settings(
            old["subtalker_temperature"], old["subtalker_top_k"], old["subtalker_top_p"]
        )
        return Picks(talker, predictor, self.noise(old["seed"], old["frame"]))


_SETTINGS: Final = {
    **dict.fromkeys(("temperature", "top_p", "penalty"), REAL),
    **dict.fromkeys(("subtalker_temperature", "subtalker_top_p"), REAL),
    **dict.fromkeys(("top_k", "subtalker_top_k"), NUMBER),
}
_COUNTS: Final = dict.fromkeys(("seed", "frame", "told", "over"), NUMBER)
_MOVING: Final = ("codes", "seen", *_COUNTS, *_SETTINGS)


def framed(c: BackboneConfig, text: Mapping[str, Field]) -> dict[str, Any]:
    """Of a specification: what is logged of a frame, and a slot's state with that of its text."""
    codes, seen = Field((c.codebooks,), "i8"), Field((c.vocab_size,), "u1")
    return {
        "frame": {"codes": Field((c.codebooks,), "i2", CODEBOOK0_SIZE)},
        "replay": {"padded": Field((), "u1", 2)},
        "state": {"codes": codes, "seen": seen, **text, **_COUNTS, **_SETTINGS},
    }
