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
from talker.family.base import Family
from talker.loading import read_family
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from voicetrain.vesper.report import untrained_texts

TEMPERATURES: Final = (0.0, 0.3, 0.6, 0.9, 1.2)
PACES: Final = (0.7, 0.85, 1.0, 1.2, 1.4)
_TOGETHER: Final = 16
_BLOCKS: Final = 2048


@dataclass(frozen=True, kw_only=True)
class Alarms:
    """Of so many endings at a temperature and a pace, `seconds` of sound in all: what was caught,
    each as its text, the sign and the frame.
    """

    temperature: float
    pace: float
    endings: int
    seconds: float
    caught: tuple[tuple[str, str, int], ...]


def listen(
    family: Family, texts: Sequence[str], temperatures: Iterable[float], paces: Iterable[float]
) -> Iterator[Alarms]:
    """Speak all texts at each temperature and pace, guarded."""
    for temperature, pace in itertools.product(temperatures, paces):
        requests = [
            SpeechRequest(
                f"r{i}", "m", "vesper", text, seed=i, speed=pace, sampling=Sampling(temperature)
            )
            for i, text in enumerate(texts)
        ]
        engine = Engine(family, slots=_TOGETHER, blocks=_BLOCKS, metrics=Metrics())
        with capture_logs() as lines:
            spoken = synthesise(engine, requests)
        caught = (line for line in lines if line["event"] == "runaway.caught")
        yield Alarms(
            temperature=temperature,
            pace=pace,
            endings=len(spoken),
            seconds=sum(rows(one.arrays) for one in spoken) / family.spec.frame_rate_hz,
            caught=tuple(
                (texts[int(line["request_id"][1:])], line["sign"], line["frame"]) for line in caught
            ),
        )


def guarded_voice(folder: Path) -> Family:
    """The default voice as talkers load it."""
    return read_family(TalkerSettings(model="m", voice_dir=folder, threads=1))


def _numbers(given: str) -> tuple[float, ...]:
    return tuple(float(one) for one in given.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endings", type=int, default=1000, help="texts at each setting")
    parser.add_argument("--voice", type=Path, default=Path("voices/vesper"), help="its folder")
    parser.add_argument("--temperatures", type=_numbers, default=TEMPERATURES)
    parser.add_argument("--paces", type=_numbers, default=PACES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    family, texts = guarded_voice(arguments.voice), untrained_texts(arguments.endings)
    print("| temperature | pace | endings | minutes | false alarms |")
    print("| --- | --- | --- | --- | --- |")
    for found in listen(family, texts, arguments.temperatures, arguments.paces):
        print(
            f"| {found.temperature:g} | {found.pace:g} | {found.endings} |"
            f" {found.seconds / 60:.1f} | {len(found.caught)} |",
            flush=True,
        )
        for text, sign, frame in found.caught:
            print(f"{sign} at frame {frame}: {text}")


if __name__ == "__main__":
    main()
