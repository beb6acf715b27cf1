"""False alarms of the guard against runaways: endings of the default voice, at many settings.

The voice ends all of these texts by itself, so that whatever is caught is a false alarm.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from structlog.testing import capture_logs

from talker.engine.engine import Engine
from talker.engine.scheduler import offline
from talker.synthesis import SynthesizedSpeech, synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.vesper.family import load
from voicetrain.vesper.report import untrained_texts

TEMPERATURES: Final = (0.0, 0.6, None, 1.2)
PACES: Final = (0.7, 1.0, 1.4)
_TOGETHER: Final = 48
_BLOCKS: Final = 32 * _TOGETHER
_DEFAULT: Final = "default"


@dataclass(frozen=True, kw_only=True)
class Alarms:
    """Of so many endings at a temperature (None: the voice's own) and a pace, `seconds` of sound in
    all: what was caught, each as its text, the sign and the frame.
    """

    temperature: float | None
    pace: float
    endings: int
    seconds: float
    caught: tuple[tuple[str, str, int], ...]


class GuardedVoice:
    """The default voice as talkers guard it, spoken many texts at a time."""

    def __init__(self, folder: Path) -> None:
        self._family = ServedFamily(load("m", folder))

    def listen(
        self,
        texts: Sequence[str],
        temperatures: Iterable[float | None],
        paces: Iterable[float],
    ) -> Iterator[Alarms]:
        """Speak all texts at each temperature and pace."""
        for pace, temperature in itertools.product(paces, temperatures):
            with capture_logs() as lines:
                spoken = self._speak(texts, temperature, pace)
            caught = (line for line in lines if line["event"] == "runaway.caught")
            frames = sum(rows(one.arrays) for one in spoken)
            yield Alarms(
                temperature=temperature,
                pace=pace,
                endings=len(spoken),
                seconds=frames / self._family.spec.frame_rate_hz,
                caught=tuple(
                    (texts[int(line["request_id"])], line["sign"], line["frame"]) for line in caught
                ),
            )

    def _speak(
        self, texts: Sequence[str], temperature: float | None, pace: float
    ) -> list[SynthesizedSpeech]:
        sampling = Sampling(temperature)
        # Attention is as long as the longest that is spoken.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        engine = Engine(
            self._family,
            slots=_TOGETHER,
            blocks=_BLOCKS,
            metrics=Metrics(),
            policy=offline,
        )
        return synthesise(
            engine,
            [
                SpeechRequest(
                    str(i), "m", "vesper", texts[i], seed=i, speed=pace, sampling=sampling
                )
                for i in order
            ],
        )


def _temperatures(given: str) -> tuple[float | None, ...]:
    return tuple(None if one == _DEFAULT else float(one) for one in given.split(","))


def _paces(given: str) -> tuple[float, ...]:
    return tuple(float(one) for one in given.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endings", type=int, default=1000, help="texts at each setting")
    parser.add_argument("--voice", type=Path, default=Path("voices/vesper"), help="its folder")
    parser.add_argument("--temperatures", type=_temperatures, default=TEMPERATURES)
    parser.add_argument("--paces", type=_paces, default=PACES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    voice, texts = GuardedVoice(arguments.voice), untrained_texts(arguments.endings)
    print("| temperature | pace | endings | minutes | false alarms |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for found in voice.listen(texts, arguments.temperatures, arguments.paces):
        hot = _DEFAULT if found.temperature is None else f"{found.temperature:g}"
        print(
            f"| {hot} | {found.pace:g} | {found.endings} |"
            f" {found.seconds / 60:.1f} | {len(found.caught)} |",
            flush=True,
        )
        for text, sign, frame in found.caught:
            print(f"{sign} at frame {frame}: {text}", flush=True)


if __name__ == "__main__":
    main()
