"""A package that speaks what it is told: `python -m tests.parity.reference.said FAMILY PLACE`.

Each line of the input is a text as JSON. The output says `ready`, and then for each text the
samples of every part as soon as it is there, and 0.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def piper(place: Path) -> Callable[[str], Iterator[int]]:
    """The voice of a file, a sentence at a time."""
    from piper import PiperVoice

    voice = PiperVoice.load(str(place))
    return lambda text: (len(chunk.audio_int16_array) for chunk in voice.synthesize(text))


def pocket_tts(place: Path) -> Callable[[str], Iterator[int]]:
    """A synthetic checkpoint, frame by frame."""
    from tests.parity.reference.pocket_tts import model_of

    model, _ = model_of(place)
    voice = model.get_state_for_audio_prompt(place / "embeddings" / "slt.safetensors")
    return lambda text: map(len, model.generate_audio_stream(voice, text))


def kokoro(place: Path) -> Callable[[str], Iterator[int]]:
    """A synthetic checkpoint, told phones; a text is one segment."""
    import torch

    from tests.parity.reference.kokoro import load

    model = load(place)
    pack = torch.load(place / "voices" / "af_heart.pt")

    @torch.inference_mode()
    def said(phones: str) -> Iterator[int]:
        yield len(model(phones, pack[len(phones) - 1], 1.0))

    return said


def hibari(place: Path) -> Callable[[str], Iterator[int]]:
    """The voice in the package, a sentence at a time."""
    from hibari import Hibari

    del place
    voice = Hibari()
    return lambda text: map(len, voice.stream(text, seed=0))


def main() -> None:
    """Speak until the input ends."""
    logging.disable(logging.WARNING)
    families: dict[str, Any] = {
        "piper": piper,
        "pocket_tts": pocket_tts,
        "kokoro": kokoro,
        "hibari": hibari,
    }
    say = families[sys.argv[1]](Path(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        for samples in say(json.loads(line)):
            print(samples, flush=True)
        print(0, flush=True)


if __name__ == "__main__":
    main()
