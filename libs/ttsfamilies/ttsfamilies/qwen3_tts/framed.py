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
from ttsfamilies.base.kernels.slots import NUMBERS, REALS, move_on, settings
from ttsfamilies.base.lm.depth import Picks
from ttsfamilies.base.runners.computation import Out, SlotTensors, TwoPartComputation
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.talker.base import NUMBER, REAL
from ttsfamilies.qwen3_tts.config import CODEBOOK0_SIZE, MIN_NEW_TOKENS, BackboneConfig
from ttsfamilies.qwen3_tts.net import FrameNet, choose_codes
from ttsfamilies.qwen3_tts.stream import Prohibitions


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
        old = settings(state, slots)
        with self.rows(lambda: state[ADAPTER].index_select(0, slots)):
            logits, codes = choose_codes(
                *(self._frames, self._never, hidden["hidden"], old["seen"], old["frame"]),
                *(old["penalty"], Picks.of(old, self.noise(old["seed"], old["frame"]))),
            )
        told = hidden["use"], hidden["samples"], logits, codes, self._never.eos
        moved = move_on(state, slots, real, *told)
        frames = {"codes": moved.codes, "padded": moved.padded}
        return Out(frames, moved.gained, moved.ended, moved.bad)


_NUMBERS: Final = {
    **dict.fromkeys((*NUMBERS, "told", "over"), NUMBER),
    **dict.fromkeys(REALS, REAL),
}


def framed(c: BackboneConfig, text: Mapping[str, Field]) -> dict[str, Any]:
    """Of a specification: what is logged of a frame, and a slot's state with that of its text."""
    codes, seen = Field((c.codebooks,), "i8"), Field((c.vocab_size,), "u1")
    return {
        "frame": {"codes": Field((c.codebooks,), "i2", CODEBOOK0_SIZE)},
        "replay": {"padded": Field((), "u1", 2)},
        "state": {"codes": codes, "seen": seen, **text, **_NUMBERS},
    }
