"""What the references are asked of synthetic Zonos checkpoints and DAC. Needs numpy alone."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tests.parity.material import drawn_codes, pcm

SEED: Final = 3
CODEC_SEED: Final = 2
# Read by the project's frontend, in eSpeak's spelling; a test holds it to that.
TEXT: Final = "It's odd: hello!"
PHONES: Final = "ɪts ˈɑːd: həlˈoʊ!"
WORDS: Final = "How odd."
SAID: Final = "hˌaʊ ˈɑːd."
SECONDS: Final = 1.1


@dataclass(frozen=True)
class Case:
    """ending: how loudly the end of speech speaks. settings: extra_params, and the reference's
    conditions by the same names. heard: spoken with the voice of a recording; goes_on: from it.
    """

    name: str
    seed: int = 16
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.1
    penalty: float = 3.0
    guidance: float = 2.0
    language: str = "en-us"
    frames: int = 14
    ending: float = 1.0
    settings: dict[str, Any] = field(default_factory=dict)
    heard: bool = False
    goes_on: bool = False
    published_heads: bool = False

    @property
    def checkpoint(self) -> str:
        """Of its checkpoint."""
        return f"zonos-{self.ending:g}{'-published-heads' * self.published_heads}"


def recording() -> npt.NDArray[np.int16]:
    """[samples] at material.SAMPLE_RATE."""
    return pcm(SECONDS, 5)


SPEED: Final = Case("speed", frames=60)

CASES: Final = (
    # The first is resumed behind each of its rows: a short one.
    Case("going on, greedy", heard=True, goes_on=True, temperature=0.0, frames=3),
    Case("the package's settings"),
    Case("greedy", temperature=0.0, frames=20),
    Case("greedy without a penalty", temperature=0.0, penalty=1.0, guidance=1.5),
    Case("top-k", temperature=0.8, top_k=40, min_p=0.0, penalty=1.7, guidance=3.0),
    Case("top-p", temperature=1.2, top_p=0.8, min_p=0.0),
    Case(
        "other conditions",
        language="en-gb",
        settings={"fmax": 24_000.0, "pitch_std": 80.0, "speaking_rate": 20.0, "anger": 0.9},
    ),
    Case("the voice of a recording", heard=True, frames=9),
    Case("going on from a recording", heard=True, goes_on=True),
    Case("ended by the model", seed=7, ending=4.0, frames=60),
    Case("ended by the model, greedy", temperature=0.0, ending=4.0, frames=60),
    Case("published head counts", temperature=0.0, frames=4, published_heads=True),
)


def codes() -> npt.NDArray[np.int16]:
    """What the codec is given, [26, 9]."""
    return drawn_codes(CODEC_SEED, 1024, 26, 9)
