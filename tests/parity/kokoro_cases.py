"""What Kokoro's goldens are of: phones, voices and paces. Read in either environment."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

SEED: Final = 3
HARMONICS: Final = 9


@dataclass(frozen=True)
class Case:
    """phones: symbols of the published vocabulary, or beside it. text: what is read so, if that is
    English. voices: with shares. heard: its samples are kept too.
    """

    name: str
    text: str
    phones: str
    voices: tuple[tuple[str, float], ...]
    speed: float = 1.0
    heard: bool = False

    @property
    def checkpoint(self) -> str:
        return "kokoro"

    @property
    def blend(self) -> str:
        return "+".join(f"{name}*{share}" for name, share in self.voices)


CASES: Final = (
    Case("short", "Hi.", "hˈI.", (("af_heart", 1.0),), heard=True),
    Case(
        "sentence",
        "The quick brown fox jumps over the dog.",
        "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə dˈɔɡ.",
        (("am_adam", 1.0),),
    ),
    Case(
        "blend",
        "One, two; three!",
        "wˈʌn, tˈu; θɹˈi!",
        (("af_heart", 0.6), ("af_sky", 0.4)),
        1.3,
        heard=True,
    ),
    Case("beside the vocabulary", "", "ˈola%, ke~ tˈal?", (("ef_dora", 1.0),), 0.8),
)


def noise(samples: int) -> npt.NDArray[np.float64]:
    """[samples, harmonics], standard normal."""
    return np.random.Generator(np.random.PCG64(SEED)).standard_normal((samples, HARMONICS))
