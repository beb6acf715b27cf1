"""What the reference is asked of synthetic Pocket TTS checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import Floats, audio, normal

SEED: Final = 4
VALUES: Final = 8
TEXT: Final = "It's the end of the world, and one is singing to the user: how odd!"
LONG: Final = f"{TEXT} To say 3.14 is to say one. The world is singing, singing and singing."
SMALL: Final = {
    "z_dim": 12,
    "lookup_table": {"dim": 32, "tokenizer": "sentencepiece", "rank": 10},
}
GROUPED: Final = {"num_heads": 3, "attn_dim": 192, "num_kv_heads": 1, "dim_feedforward": 96}
# By folder: how its synthetic checkpoint is written, in the terms of the writer.
CHECKPOINTS: Final[dict[str, dict[str, Any]]] = {
    "pocket": {},
    "pocket-steps": {"sampler_decode_steps": 3},
    "pocket-matching": {"flow": "flow_matching"},
    "pocket-small": {"flow": "drifting", "flow_lm": SMALL, "small_decoder": True},
    "pocket-pointwise": {"flow": "pointwise", "lm": {"num_heads": 4, "num_kv_heads": 2}},
    "pocket-old": {"begins": False, "pad_with_spaces_for_short_inputs": True},
    "pocket-heads": {"lm": {"num_heads": 16, "attn_dim": 1024}},
    "pocket-two-bytes": {"dtype": "bfloat16"},
    "pocket-grouped": {"flow": "pointwise", "lm": GROUPED},
}


@dataclass(frozen=True)
class Case:
    """seconds: of the recording that is cloned; without, the published voice speaks."""

    name: str
    checkpoint: str = "pocket"
    text: str = TEXT
    seed: int = 16
    temperature: float = 0.3
    seconds: float = 0.0
    after: int | None = None


CASES: Final = (
    Case("the usual settings"),
    Case("greedy", temperature=0.0),
    Case("several chunks", text=LONG, seed=5),
    Case("few words", text="how odd", seed=7, temperature=0.7),
    Case("frames behind the end", seed=8, after=9),
    Case("a cloned voice", seconds=1.7, seed=3),
    Case("three steps", "pocket-steps"),
    Case("flow matching", "pocket-matching", seed=4),
    Case("drifting", "pocket-small", text=LONG, seed=9),
    Case("drifting, a cloned voice", "pocket-small", seconds=1.31),
    Case("pointwise, grouped heads", "pocket-pointwise", seed=6),
    Case("nothing before the voice", "pocket-old", text="how odd", seconds=2.03),
    Case("published heads", "pocket-heads", text=LONG, seed=2),
    Case("published heads, greedy, cloned", "pocket-heads", temperature=0.0, seconds=1.2),
    Case("stored in two bytes", "pocket-two-bytes", text=LONG, seed=13),
    Case("the smallest's heads", "pocket-grouped", seed=11),
)
# Texts that are divided, with the switches of the rules.
FRENCH: Final = {'"': "", ":": ",", "\u2019": "'", "\u2013": ","}
RULES: Final[dict[str, dict[str, Any]]] = {
    "english": {"replace_characters": {"\u2019": "'"}},
    "french": {"replace_characters": FRENCH, "remove_semicolons": True},
    "padded": {"pad_with_spaces_for_short_inputs": True},
    "bare": {"append_terminal_punctuation": False, "capitalize_first_letter": False},
}
TEXTS: Final = (
    "how odd",
    TEXT,
    LONG,
    "one; two: three - four,",
    'say "is it odd?", and say "it is!"; (or say one.)',
    "It is 3.14 or 2.5. 7 is odd... is it?! It is! and one",
    "the world is singing to the end of the world and to the end and one is odd and to say so, "
    "singing and singing, is to say one: the world, the one world, is odd and singing to it. yes",
    "caf\u00e9 \u2013 it\u2019s odd\u2026 \u00bfis it? \U0001f600 yes. " * 4,
    " ".join(f"{i}. is one, and {i + 1} is odd!" for i in range(14)),
)


def noise(seed: int, frame: int) -> Floats:
    """Standard normal, [VALUES]."""
    return normal([seed, frame, 77], VALUES)


def recording(case: Case, rate: int = 24_000) -> npt.NDArray[np.int16]:
    """A voice that ends in silence, [samples]."""
    spoken = audio(case.seconds, case.seed, rate)
    spoken[-rate // 5 :] *= 1e-3
    return np.round(spoken * 32_767).astype(np.int16)


def latents() -> tuple[Floats, npt.NDArray[np.int32]]:
    """What the codec is given: [frames, VALUES], and the chunk of each."""
    return normal(3, 15, VALUES), np.repeat(np.array([0, 1, 2], np.int32), [6, 1, 8])
