"""Pictures: loss curves of a training run, error rates of an evaluation, spectrograms."""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt

from voicetrain.data import Array
from voicetrain.features import FRAME_SAMPLES, log_mel

mpl.use("Agg")
COLUMNS = 4
SYSTEMS = ("teacher", "codec", "tts")


def _read_curves(path: Path) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        for name, value in row.items():
            if name not in ("done", "step"):
                curves.setdefault(name, []).append((row["done"], value))
    return curves


def plot_curves(source: Path, target: Path) -> None:
    """Each loss of a stage's curve file over the processor seconds spent; held out in the same."""
    curves = _read_curves(source)
    shown = [name for name in curves if not (name.startswith("held_") and name[5:] in curves)]
    rows = -(-len(shown) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(3.2 * COLUMNS, 2.4 * rows), squeeze=False)
    for axis, name in zip(axes.flat, shown, strict=False):
        for curve, style in ((name, "-"), (f"held_{name}", "o-")):
            if curve in curves:
                seconds, values = zip(*curves[curve], strict=True)
                axis.plot(seconds, values, style, markersize=3, label=curve)
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=7)
    for axis in list(axes.flat)[len(shown) :]:
        axis.axis("off")
    figure.suptitle(f"{source.stem}: losses over processor seconds")
    figure.tight_layout()
    figure.savefig(target, dpi=100)
    plt.close(figure)


def plot_error_rates(report: dict[str, Any], target: Path) -> None:
    """Word error rates of each system by set, with 95 % intervals, and by voice for the TTS."""
    sets = list(report["sets"])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(3, 2))
    for offset, system in enumerate(SYSTEMS):
        rates = [report["sets"][name][system]["wer"] for name in sets]
        values = np.array([rate["value"] for rate in rates])
        spread = [[r["value"] - r["low"] for r in rates], [r["high"] - r["value"] for r in rates]]
        places = np.arange(len(sets)) + 0.25 * (offset - 1)
        left.bar(places, values, 0.22, yerr=spread, capsize=3, label=system)
        for place, value in zip(places, values, strict=True):
            left.text(place, value, f" {value:.3f}", rotation=90, fontsize=7, va="bottom")
    left.set_xticks(range(len(sets)), sets)
    left.set_ylabel("word error rate (pocketsphinx)")
    left.legend(fontsize=8)
    for offset, name in enumerate(sets):
        voices = report["sets"][name]["tts"]["by_voice"]
        places = np.arange(len(voices)) + 0.35 * (offset - 0.5)
        right.bar(places, [v["wer"]["value"] for v in voices.values()], 0.3, label=name)
        right.set_xticks(range(len(voices)), list(voices))
    right.set_title("tts by voice", fontsize=9)
    right.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(target, dpi=100)
    plt.close(figure)


def plot_spectrograms(sounds: dict[str, Array], target: Path) -> None:
    """Log mel spectra one above the other; sounds are [samples] float32 at 16 kHz."""
    figure, axes = plt.subplots(len(sounds), 1, figsize=(9, 2.0 * len(sounds)), squeeze=False)
    for axis, (title, sound) in zip(axes[:, 0], sounds.items(), strict=True):
        padded = np.pad(sound, (0, -len(sound) % FRAME_SAMPLES)).astype(np.float32)
        mel = log_mel(torch.from_numpy(padded)[None])[0].numpy().T
        extent = (0, mel.shape[1] / 100, 0, mel.shape[0])
        axis.imshow(mel, origin="lower", aspect="auto", extent=extent, cmap="magma")
        axis.set_title(title, fontsize=8)
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(target, dpi=80)
    plt.close(figure)
