"""`python -m tests.parity.piper_judged --python PYTHON`: Piper's own sound and ours, judged.

PYTHON has the package piper-tts, whose sound is the reference: not made louder, with noise of its
own. Beside it the same voice here, with eSpeak's phones and with the frontend's.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from antiphon_bench.texts import sentences
from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.parity.piper_voice import SEED, VOICE, talker
from tests.parity.test_piper import heard
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.piper.phones import Espeak
from ttsfamilies.piper.request import ESPEAK, OWN, PHONES
from voicetrain.vesper.judges import Judges, judged, normal_text
from voicetrain.vesper.scores import mean, word_error_rate

RATE: Final = 22_050
_REFERENCE: Final = """
import json, sys
import msgspec
import numpy as np
from piper import PiperVoice, SynthesisConfig
voice = PiperVoice.load(sys.argv[1])
config = SynthesisConfig(normalize_audio=False)
for at, text in enumerate(json.load(sys.stdin)):
    sound = np.concatenate([one.audio_float_array for one in voice.synthesize(text, config)])
    np.save(f"{sys.argv[2]}/{at}.npy", sound)
"""


def reference(python: Path, texts: Sequence[str], folder: Path) -> Iterator[Any]:
    """[samples] of each text, by the package."""
    told = json.dumps(list(texts)).encode()
    command = [str(python), "-c", _REFERENCE, str(VOICE), str(folder)]
    subprocess.run(command, input=told, check=True, timeout=600)
    for at in range(len(texts)):
        yield np.load(folder / f"{at}.npy")


def ours(texts: Sequence[str], phones: str) -> Iterator[Any]:
    """[samples] of each text, with these phones."""
    for text in texts:
        engine = Engine(talker(), slots=1, metrics=Metrics())
        request = SpeechRequest("r", "joe", "joe", text, seed=SEED)
        if Espeak.installed():
            request = msgspec.structs.replace(request, extra_params={PHONES: phones})
        (spoken,) = synthesise(engine, [request])
        yield heard(spoken.arrays)


def main() -> None:
    """Print what the judges say of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="For the reference's sound.")
    parser.add_argument("--texts", type=int, default=24)
    asked = parser.parse_args()
    texts = [*sentences("short"), *sentences("medium")][: asked.texts]
    judges = Judges(asked.folder / "judged.jsonl")
    systems = {
        "Piper's package": list(reference(asked.python, texts, asked.folder)),
        "here, the frontend's phones": list(ours(texts, OWN)),
    }
    if Espeak.installed():
        systems["here, eSpeak's phones"] = list(ours(texts, ESPEAK))
    said = [normal_text(text) for text in texts]
    for name, sounds in systems.items():
        audio = [judged(sound, RATE) for sound in sounds]
        words = [normal_text(judges.heard(one).text) for one in audio]
        wer = word_error_rate(said, words).rounded()
        print(name, "WER", wer, "DistillMOS", mean([judges.distillmos(a) for a in audio]).rounded())


if __name__ == "__main__":
    main()
