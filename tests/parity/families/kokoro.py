"""Kokoro beside the published package, which is told the same phones."""

from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from tests.parity.kokoro_cases import CASES, SEED, Case
from tests.parity.material import arrays
from tests.parity.subject import Subject
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.kokoro.family import Kokoro, load
from ttsfamilies.kokoro.synthetic import VOCABULARY, write_checkpoint

# Durations and curves, by case and name.
goldens = partial(arrays, "kokoro")


class KokoroSubject(Subject[Case]):
    """See Subject. Nothing is drawn; one case says so all the same."""

    cases = tuple(case for case in CASES if case.text)
    environment = "official"
    atol = 2e-3  # of 150 Hz

    def write(self, folder: Path, checkpoint: str) -> None:
        write_checkpoint(folder, seed=SEED)

    def write_all(self, folder: Path) -> None:
        write_checkpoint(folder / "kokoro", seed=SEED, pickles=True)

    def load(self, folder: Path) -> Kokoro:
        return load("m", folder)

    def request(self, case: Case) -> SpeechRequest:
        sampling = Sampling(temperature=0.0 if case is CASES[0] else None)
        return SpeechRequest("r", "m", case.blend, case.text, speed=case.speed, sampling=sampling)

    def wanted(self, case: Case) -> Arrays:
        found = {
            name: goldens()[f"{case.name}/{name}"] for name in ("durations", "pitch", "energy")
        }
        ids = np.array([0, *(VOCABULARY[symbol] for symbol in case.phones), 0])
        place = np.repeat(np.arange(len(ids)), found["durations"])
        count = len(place)
        curves = [found[name].reshape(count, 2) for name in ("pitch", "energy")]
        return {
            "symbol": ids[place].astype(np.int16),
            "row": np.full(count, len(case.phones) - 1, np.int16),
            "left": np.arange(count)[::-1].astype(np.int16),
            "curves": np.concatenate(curves, 1).astype(np.float32),
            "place": place.astype(np.int32),
            "passage": np.zeros(count, np.int32),
        }


FAMILY: Final = KokoroSubject()
