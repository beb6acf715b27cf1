"""Pictures of sounds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib import pyplot as plt

from voicetrain.data import Array

mpl.use("Agg")
_WINDOW_S, _OVERLAP = 0.032, 0.75
_FLOOR_DB: Final = -100


def plot_spectrograms(sounds: Mapping[str, Array], target: Path, rate: int) -> None:
    """Spectrograms one above the other; sounds are [samples] float32 at `rate` Hz."""
    figure, axes = plt.subplots(len(sounds), 1, figsize=(9, 2.0 * len(sounds)), squeeze=False)
    window = int(_WINDOW_S * rate)
    for axis, (title, sound) in zip(axes[:, 0], sounds.items(), strict=True):
        axis.specgram(
            sound + 1e-7,
            window,
            rate,
            noverlap=int(_OVERLAP * window),
            cmap="magma",
            vmin=_FLOOR_DB,
        )
        axis.set_title(title, fontsize=8)
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(target, dpi=80)
    plt.close(figure)
