"""What the reference is asked of synthetic Chatterbox checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import audio

SEED: Final = 3
TEXT: Final = "the end of the world, and you are in it: how odd"
KOREAN: Final = "\uadf8\uac00 \uac00\uae30; \uac00\ub2c8?"
# By folder: kind, how loudly the end speaks, tokens of the built-in voice, published heads.
CHECKPOINTS: Final = {
    "english": ("english", 1.0, 37, False),
    "english-ending": ("english", 6.0, 150, False),
    "english-heads": ("english", 1.0, 9, True),
    "multilingual": ("multilingual", 1.0, 37, False),
    "turbo": ("turbo", 1.0, 375, False),
    "turbo-ending": ("turbo", 14.0, 37, False),
    "turbo-heads": ("turbo", 1.0, 9, True),
}


@dataclass(frozen=True)
class Case:
    """penalty, top_p, top_k, min_p: None is the package's own. seconds: of the recording that is
    cloned; without, the voice that is built in speaks. ours: the text that has the same ids here,
    where it is another: the package's reader puts a token of its own in front of the tags of a
    small vocabulary, so that the id of its first tag is that of our second.
    """

    name: str
    checkpoint: str = "english"
    text: str = TEXT
    seed: int = 16
    temperature: float = 0.8
    penalty: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    weight: float = 0.5
    emotion: float = 0.5
    language: str = "en"
    tokens: int = 12
    seconds: float = 0.0
    ours: str = ""


CASES: Final = (
    Case("greedy", temperature=0.0),
    Case("the package's settings", seed=4),
    Case("strongly guided", weight=1.7, emotion=1.4, seed=5),
    Case("greedy, strongly guided", weight=1.7, temperature=0.0, emotion=0.0),
    Case("hot, top p", temperature=1.3, top_p=0.8, min_p=0.0, penalty=1.9, seed=8),
    Case("ended by the model", "english-ending", seed=9, temperature=1.0, tokens=60),
    Case("published heads", "english-heads", seed=7, tokens=8),
    Case("published heads, greedy", "english-heads", temperature=0.0, tokens=8),
    Case("German", "multilingual", language="de", seed=2),
    Case("Korean, greedy", "multilingual", KOREAN, language="ko", temperature=0.0),
    Case("Korean", "multilingual", KOREAN, language="ko", seed=6),
    Case("Turbo, greedy", "turbo", temperature=0.0),
    Case("Turbo, the package's settings", "turbo", seed=11),
    Case(
        "Turbo, laughing",
        "turbo",
        "the end, [laugh] - and you; odd",
        seed=12,
        penalty=2.0,
        ours="the end, [sigh] - and you; odd",
    ),
    Case("Turbo, few ids", "turbo", temperature=1.4, top_k=5, top_p=0.7, seed=13),
    Case("Turbo, ended by the model", "turbo-ending", temperature=1.0, seed=14, tokens=60),
    Case("Turbo, published heads", "turbo-heads", seed=15, tokens=8),
    Case("Turbo, published heads, greedy", "turbo-heads", temperature=0.0, tokens=8),
    Case("a cloned voice", seed=17, seconds=2.3),
    Case("a cloned voice, greedy", temperature=0.0, seconds=7.1, seed=18),
    Case("Turbo, a cloned voice", "turbo", seconds=5.4, seed=19),
)
# One sentence, the package's settings.
SPEED: Final = Case("speed", tokens=60)


def recording(case: Case, rate: int = 24_000) -> npt.NDArray[np.int16]:
    """Speech between silences, [samples]."""
    spoken = audio(case.seconds, case.seed, rate)
    spoken[: rate // 4] *= 1e-3
    spoken[-rate // 5 :] *= 1e-3
    return np.round(spoken * 32_767).astype(np.int16)
