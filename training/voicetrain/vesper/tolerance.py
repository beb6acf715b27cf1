"""The effect of a tolerance for guesses on the sound: judges compare it with none, text by text.

The frames are those of the service's engine, one text at a time, with the same seeds throughout.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch

from talker.engine.engine import Engine
from talker.engine.widths import Gains, Widths
from talker.loading import load_family
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from voicetrain.corpus import held_out
from voicetrain.progress import Progress
from voicetrain.vesper.evaluate import write_report
from voicetrain.vesper.judges import Judges
from voicetrain.vesper.scores import Scores
from voicetrain.vesper.speak import sound
from voicetrain.vesper.voice import Voice

TOLERANCES: Final = ((1, 0.0), (3, 0.0), (1, 100.0), (3, 100.0))
_BLOCKS: Final = 256


def judge_tolerances(folder: Path, report_path: Path, limit: int) -> None:
    """Judge the easy set under each tolerance, the first being none. limit: sentences."""
    texts = held_out("easy")[:limit]
    judges, decoder = Judges(report_path.with_suffix(".jsonl")), Voice.load(folder).decoder
    report: dict[str, Any] = {}
    plain: Scores | None = None
    progress = Progress("tolerances", len(TOLERANCES) * len(texts))
    for tries, cents in TOLERANCES:
        scores, gains = Scores(), Gains()
        for text, codes in zip(texts, _spoken(folder, texts, tries, cents, gains), strict=True):
            scores.add(judges, text, sound(decoder, codes), dnsmos=False)
            progress.report(len(report) * len(texts) + len(scores.said))
        plain = plain or scores
        report[f"{tries} tries, {cents:g} cents"] = {
            **scores.report(),
            "beside none": scores.beside(plain),
            "frames a step": gains.mean,
        }
        write_report(report, report_path)


def _spoken(
    folder: Path, texts: Sequence[str], tries: int, cents: float, gains: Gains
) -> list[torch.Tensor]:
    """[frames, 4] codes of each text."""
    settings = TalkerSettings(
        model="v", voice_dir=folder, threads=1, draft_tries=tries, draft_cents=cents
    )
    family = load_family(settings)
    engine = Engine(
        family,
        slots=1,
        blocks=_BLOCKS,
        metrics=Metrics(),
        widths=lambda most, _: Widths(most, gains),
    )
    voice = family.spec.voices[0].id
    requests = [SpeechRequest(text, "v", voice, text, seed=n) for n, text in enumerate(texts)]
    found = synthesise(engine, requests)
    return [torch.from_numpy(one.arrays["codes"]).long() for one in found]
