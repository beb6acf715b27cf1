"""Drawing ids from logits: one noise, one set of rules, one draw with a CPU and a device branch."""

from talker.sampling.draw import MOST_IDS, draw_alone, draw_ids
from talker.sampling.min_p import without_unlikely
from talker.sampling.noise import Noise
from talker.sampling.nucleus import draw_unscaled
from talker.sampling.repetition import draw_unrepeated
from talker.sampling.rules import Rules
from talker.sampling.settings import Settings

__all__ = [
    "MOST_IDS",
    "Noise",
    "Rules",
    "Settings",
    "draw_alone",
    "draw_ids",
    "draw_unrepeated",
    "draw_unscaled",
    "without_unlikely",
]
