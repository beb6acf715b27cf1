"""The whole evaluation: both sets, stopping, odd texts, speed and sizes, as JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from talker.text.segment import Segmenter
from voicetrain.corpus import held_out
from voicetrain.evaluate import Evaluation, reliability, write_report
from voicetrain.plots import plot_curves, plot_error_rates
from voicetrain.progress import Progress
from voicetrain.recognise import normal_text, word_error_rate
from voicetrain.stages import Workshop

LONG_WORDS = 300
ODD_TEXTS = {
    "one word": "Tomorrow.",
    "numbers only": "1984, 37, 250.",
    "capitals": "PLEASE CLOSE THE WINDOW BEFORE YOU LEAVE THE HOUSE.",
    "no punctuation": "the train from the city arrives in the evening and we will wait for you",
}
SPOKEN_FORMS = {"numbers only": "nineteen eighty four thirty seven two hundred fifty"}


def _read_aloud(evaluation: Evaluation, text: str) -> str:
    """What is heard of a text of any length, cut into utterances as the talker does."""
    heard = []
    for number, utterance in enumerate(Segmenter().feed(text, final=True)):
        sung = evaluation.singer.sing(evaluation.frontend.phones(utterance).phones, 1, number)
        heard.append(evaluation.recogniser.hear(evaluation.singer.sound(sung.codes)).text)
    return " ".join(heard)


def odd_texts(evaluation: Evaluation) -> dict[str, Any]:
    """Texts that are not a plain sentence, in the voice rms."""
    long_text = " ".join(" ".join(held_out("easy")).split()[:LONG_WORDS])
    found = {}
    for name, text in {**ODD_TEXTS, f"{LONG_WORDS} words": long_text}.items():
        said, heard = normal_text(SPOKEN_FORMS.get(name, text)), _read_aloud(evaluation, text)
        found[name] = {"said": said, "heard": heard, "wer": word_error_rate([said], [heard]).value}
    return found


def _stopping_texts(workshop: Workshop, count: int) -> list[str]:
    """Both sets, then the text from its end; the talker was trained on all but the last 2 %."""
    written = (workshop.folder / "text.txt").read_text("utf-8").splitlines()
    texts = [*held_out("easy"), *held_out("hard"), *reversed(written)]
    return texts[:count]


def evaluate_voice(
    workshop: Workshop,
    voice: Path,
    report_path: Path,
    *,
    voices_each: int,
    limit: int | None,
    stopping_texts: int,
) -> None:
    """Measure a voice folder with the tokenizer that made it; write report, plot and curves."""
    evaluation = Evaluation(voice, workshop.codec(), workshop.folder / "heard.jsonl")
    report: dict[str, Any] = {"speed": evaluation.speed(), "bytes": evaluation.sizes(), "sets": {}}
    steps = Progress("evaluation", 4)
    for done, name in enumerate(("easy", "hard"), 1):
        report["sets"][name] = measured = evaluation.of_set(name, voices_each, limit)
        write_report(report, report_path)
        rates = {s: measured[s]["wer"]["value"] for s in ("teacher", "codec", "tts")}
        steps.report(done, **rates)
    report["odd_texts"] = odd = odd_texts(evaluation)
    steps.report(3, wer=float(np.mean([text["wer"] for text in odd.values()])))
    texts = _stopping_texts(workshop, stopping_texts)
    report["reliability"] = reliability(voice, texts, workshop.workers)
    write_report(report, report_path)
    steps.report(4, runaways=report["reliability"]["runaways"])
    plot_error_rates(report, report_path.with_suffix(".png"))
    for stage in ("codec", "vocoder", "talker"):
        curve = workshop.folder / f"{stage}.jsonl"
        if curve.exists():
            plot_curves(curve, report_path.parent / f"voice-{stage}.png")
    print(json.dumps(report, indent=2))
