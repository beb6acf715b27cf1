"""The voice's card: samples, spectrograms, and the numbers of its last evaluation."""

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from textwrap import fill
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot as plt

from ttscommon.wire.fields import Array
from voicetrain.vesper.page import SENTENCES, write_wav
from voicetrain.vesper.parts import Report
from voicetrain.vesper.report import sizes
from voicetrain.vesper.scores import RATE
from voicetrain.vesper.teacher import Teacher
from voicetrain.vesper.voice import Voice

_PICTURED: Final = 2
_WIDTH: Final = 100
_SYSTEMS: Final = ("teacher", "codec", "speech")


def write_samples(folder: Path) -> list[tuple[str, str, str]]:
    """A WAV file of each preset under `samples/`, and spectrograms beside the teacher's.

    Returns file name, preset and text of each.
    """
    voice, teacher = Voice.load(folder), Teacher()
    samples = folder / "samples"
    samples.mkdir(exist_ok=True)
    written, pictures = [], {}
    for number, (preset, text) in enumerate(zip(voice.presets, SENTENCES, strict=False), 1):
        sound = voice.said(text, preset)
        name = f"{number}-{preset}.wav"
        write_wav(samples / name, sound)
        written.append((name, preset, text))
        if number <= _PICTURED:
            pictures[f"teacher: {text}"] = teacher.sound(text)
            pictures[f"vesper: {text}"] = voice.said(text)
    plot_spectrograms(pictures, folder / "spectrograms.png")
    return written


def write_card(folder: Path, report: Report) -> None:
    """README.md of the voice folder, from its template and the report. Raises OSError, KeyError."""
    samples = [f"- [{n}](samples/{n}), {p}: {t}" for n, p, t in write_samples(folder)]
    template = resources.files("voicetrain").joinpath("data", "vesper-card.md").read_text("utf-8")
    values = {
        "samples": "\n".join(samples),
        "notes": "\n\n".join(fill(note, _WIDTH, break_on_hyphens=False) for note in report.notes),
        "megabytes": f"{sum(sizes(folder).values()) / 1e6:.1f}",
        **figures(report.parts),
    }
    for name, value in values.items():
        template = template.replace("{{" + name + "}}", value)
    if left := re.search(r"{{(\w+)}}", template):
        raise KeyError(left[1])
    card = re.sub(r"\n{3,}", "\n\n", _without_empty_tables(template))
    (folder / "README.md").write_text(card, "utf-8")


def _without_empty_tables(text: str) -> str:
    """A part that was not measured yet has a table's head and no rows."""
    return re.sub(r"^\|.*\|\n\|[ |-]+\|\n\n", "", text, flags=re.MULTILINE)


def figures(report: Mapping[str, Any]) -> dict[str, str]:
    """What the template shows of an evaluation, given by part. Raises KeyError."""
    lasting, drift = report["reliability"], report["long"]["drift"]
    starts, drafts, speed = report["word_starts"], report["drafts"], report["speed"]
    return {
        "sets": "\n".join(_set_rows(report)),
        "presets": "\n".join(_row(name, of) for name, of in report["presets"].items()),
        "paces": "\n".join(_pace_row(pace, of) for pace, of in report["paces"].items()),
        "temperatures": "\n".join(_row(t, of) for t, of in report.get("temperatures", {}).items()),
        "count": str(lasting["sentences"]),
        "runaways": str(lasting["runaways"]),
        "empty": str(lasting["empty"]),
        "within": f"{100 * lasting['within_15_percent']:.1f} %",
        "ratio": f"{lasting['ratio']['median']:.3f}",
        "semitones": _spread(drift["semitones"], "+.2f"),
        "pace": _spread(drift["pace"], ".3f"),
        "starts": f"{1000 * starts['paced_median_s']:.0f} ms",
        "heard": f"{1000 * starts['heard_median_s']:.0f} ms",
        "talker_rtf": f"{speed['talker_rtf']:.3f}",
        "decoder_rtf": f"{speed['decoder_rtf']:.3f}",
        "drafted": f"{drafts['frames_a_verification']:.2f}",
    }


def _set_rows(report: Mapping[str, Any]) -> list[str]:
    sets = {"easy": report["easy"], "hard": report["hard"], "long-form": report["long"]}
    return [
        f"| {name} {_row(system, systems[system])}"
        for name, systems in sets.items()
        for system in _SYSTEMS
        if system in systems
    ]


def _row(name: str, of: Mapping[str, Any]) -> str:
    """Who, how many, and what the judges said."""
    dnsmos = _interval(of["dnsmos"], 2) if "dnsmos" in of else "-"
    mos, errors = _interval(of["distillmos"], 2), _interval(of["wer"], 3)
    return f"| {name} | {of['sentences']} | {mos} | {dnsmos} | {errors} |"


def _pace_row(pace: str, of: Mapping[str, Any]) -> str:
    lengths = of["lengths"]
    within = f"{100 * lengths['within_15_percent']:.0f} %"
    return f"{_row(pace, of)} {lengths['ratio']['median']:.3f} | {within} |"


def _interval(of: Mapping[str, float], digits: int) -> str:
    return f"{of['value']:.{digits}f} ({of['low']:.{digits}f} to {of['high']:.{digits}f})"


def _spread(values: list[float], form: str) -> str:
    """The least, the middle and the greatest."""
    ordered = sorted(values)
    chosen = ordered[0], ordered[len(ordered) // 2], ordered[-1]
    return " / ".join(f"{value:{form}}" for value in chosen)


mpl.use("Agg")
_WINDOW_S, _OVERLAP = 0.032, 0.75
_FLOOR_DB: Final = -100


def plot_spectrograms(sounds: Mapping[str, Array], target: Path) -> None:
    """Spectrograms one above the other; sounds are [samples] float32."""
    figure, axes = plt.subplots(len(sounds), 1, figsize=(9, 2.0 * len(sounds)), squeeze=False)
    window = int(_WINDOW_S * RATE)
    for axis, (title, sound) in zip(axes[:, 0], sounds.items(), strict=True):
        axis.specgram(
            sound + 1e-7,
            window,
            RATE,
            noverlap=int(_OVERLAP * window),
            cmap="magma",
            vmin=_FLOOR_DB,
        )
        axis.set_title(title, fontsize=8)
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(target, dpi=80)
    plt.close(figure)
