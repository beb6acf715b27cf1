"""The model card: samples, pictures, and the numbers of the last evaluation."""

import json
import re
import wave
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from talker.text.frontend import EnglishFrontend
from voicetrain.data import Array
from voicetrain.plots import plot_spectrograms
from voicetrain.speak import Singer
from voicetrain.stages import Workshop
from voicetrain.teacher import VOICES, flite

SAMPLE_TEXTS = (
    ("slt", "Good morning, everyone, and welcome to the show."),
    ("rms", "The train from the city arrives at half past nine."),
    ("awb", "There are seven days in a week and twelve months in a year."),
    ("slt", "Would you mind opening the door for me?"),
    ("rms", "Your total is $42.50, due on March 3rd."),
)
SAMPLE_RATE = 16_000
NOTES = "notes.md"
_LEVEL = 0.7
_SHOWN = 90


def _write_wav(path: Path, sound: Array) -> None:
    pcm = np.clip(sound * 32767, -32768, 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(pcm.tobytes())


def write_samples(folder: Path) -> list[str]:
    """Five WAV files under `samples/` and a picture of spectrograms; returns the file names."""
    singer, frontend = Singer.load(folder), EnglishFrontend.load(folder)
    samples = folder / "samples"
    samples.mkdir(exist_ok=True)
    names, pictures = [], {}
    for number, (voice, text) in enumerate(SAMPLE_TEXTS, 1):
        sung = singer.sing(frontend.phones(text).phones, VOICES.index(voice), number)
        sound = singer.sound(sung.codes, number)
        name = f"{number}-{voice}.wav"
        _write_wav(samples / name, sound * (_LEVEL / max(_LEVEL, float(np.abs(sound).max()))))
        names.append(name)
        if number <= len(VOICES):
            pictures[f"teacher {voice}: {text}"] = flite().speak(text, voice).audio / 32768
            pictures[f"cantor {voice}"] = sound
    plot_spectrograms(pictures, folder / "spectrograms.png")
    return names


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN].rsplit(" ", 1)[0] + " ..."


def _interval(rate: dict[str, float]) -> str:
    return f"{rate['value']:.3f} ({rate['low']:.3f} to {rate['high']:.3f})"


def _error_table(sets: dict[str, Any]) -> str:
    lines = [
        "| set | sentences | system | WER (95 %) | CER | by voice |",
        "| - | - | - | - | - | - |",
    ]
    for name, measured in sets.items():
        for system in ("teacher", "codec", "tts"):
            rates = measured[system]
            voices = ", ".join(
                f"{voice} {of['wer']['value']:.3f}" for voice, of in rates["by_voice"].items()
            )
            lines.append(
                f"| {name} | {measured['sentences']} | {system} | {_interval(rates['wer'])} "
                f"| {rates['cer']['value']:.3f} | {voices} |"
            )
    return "\n".join(lines)


def _training_facts(workshop: Workshop) -> dict[str, str]:
    """Steps and processor minutes of each network, read from their curves."""
    facts = {}
    for stage in ("codec", "vocoder", "talker"):
        last = json.loads((workshop.folder / f"{stage}.jsonl").read_text("utf-8").splitlines()[-1])
        facts[f"{stage}_minutes"] = f"{last['done'] / 60:.0f}"
        facts[f"{stage}_steps"] = str(last["step"])
    facts["sentences"] = str(len((workshop.folder / "text.txt").read_text("utf-8").splitlines()))
    facts["hours"] = f"{len(workshop.codes()) / 25 / 3600:.1f}"
    return facts


def write_card(workshop: Workshop, voice: Path, report_path: Path) -> None:
    """README.md of the voice folder from the template and the report. Raises OSError, KeyError."""
    report = json.loads(report_path.read_text("utf-8"))
    names = write_samples(voice)
    easy, stopping = report["sets"]["easy"], report["reliability"]
    odd = "\n".join(
        f"| {name} | {_shortened(of['said'])} | {_shortened(of['heard'])} | {of['wer']:.3f} |"
        for name, of in report["odd_texts"].items()
    )
    notes = workshop.folder / NOTES
    template = resources.files("voicetrain").joinpath("data", "card.md").read_text("utf-8")
    values = {
        **_training_facts(workshop),
        "notes": notes.read_text("utf-8").strip() if notes.exists() else "",
        "errors": _error_table(report["sets"]),
        "odd": odd,
        "stop_count": str(stopping["sentences"]),
        "runaways": str(stopping["runaways"]),
        "empty": str(stopping["empty"]),
        "within": f"{100 * stopping['within_30_percent']:.1f} %",
        "ratio": f"{stopping['length_ratio']['median']:.3f}",
        "timing": f"{1000 * easy['word_start_error_s']['median_absolute']:.0f} ms",
        "timed_words": str(easy["word_start_error_s"]["words"]),
        "talker_rtf": f"{report['speed']['talker_rtf']:.3f}",
        "vocoder_rtf": f"{report['speed']['vocoder_rtf']:.4f}",
        "samples": "\n".join(
            f"- [{name}](samples/{name}): {text}"
            for name, (_, text) in zip(names, SAMPLE_TEXTS, strict=True)
        ),
    }
    for name, value in values.items():
        template = template.replace("{{" + name + "}}", value)
    (voice / "README.md").write_text(re.sub(r"\n{3,}", "\n\n", template), "utf-8")
