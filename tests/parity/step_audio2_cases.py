"""What the references are asked of synthetic Step-Audio 2 checkpoints. Needs numpy alone."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.parity.material import TEXT, Floats, audio

SEED: Final = 3
RATE: Final = 16_000
# Of a recording whose voice answers: S3 tokens.
VOICE_TOKENS: Final = 20
ROW_STRIDE: Final = 5
# By folder: whether it has the published head counts, and how loudly an answer's end speaks.
CHECKPOINTS: Final = {
    "step": (False, 0.0),
    "step-heads": (True, 0.0),
    "step-ending": (False, 2.5),
}


class Said(NamedTuple):
    """An earlier turn. seconds: of sound, 0 where there is text alone."""

    human: bool
    text: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Case:
    """How it is drawn, where that is not told: the authors' settings."""

    name: str
    checkpoint: str = "step"
    text: str = ""
    said: tuple[Said, ...] = ()
    how: str = ""
    greedy: bool = False
    seed: int = 16
    tokens: int = 24

    @property
    def sampling(self) -> dict[str, float]:
        """Temperature, top-p and the penalty."""
        return {"temperature": 0.0 if self.greedy else 0.7, "top_p": 0.9, "penalty": 1.05}


_TALK: Final = (
    Said(True, "Hello, you said."),
    Said(False, "The end of the world."),
    Said(True, seconds=1.31),
)
CASES: Final = (
    Case("sound", said=(Said(True, seconds=2.2),)),
    Case("sound, greedy", said=(Said(True, seconds=0.5),), greedy=True, tokens=12),
    Case("text", text=TEXT, seed=5),
    Case("sound and text", text="Is it odd?", said=(Said(True, seconds=1.0),), seed=6),
    Case("a conversation, under an instruction", said=_TALK, how="Sing it.", seed=7),
    Case("sound of two segments", said=(Said(True, seconds=26.3),), seed=8, tokens=8),
    Case("published head counts", "step-heads", said=_TALK, seed=9, tokens=16),
    Case("ended by the model", "step-ending", text="Odd.", seed=2, tokens=400),
)


def sound(seconds: float) -> Floats:
    """[samples] at RATE."""
    return audio(seconds, SEED, RATE)
