"""What cutting texts changes of Kokoro's durations and pitch: antiphon bench kokoro-cuts.

Random weights of the published size say that they depend on a cut and how far from it, and nothing
about how it sounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from antiphon_bench.texts import LONG, MEDIUM
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.text.breaths import Breaths
from ttsfamilies.kokoro.family import Kokoro
from ttsfamilies.kokoro.phones import spoken
from ttsfamilies.kokoro.synthetic import write_checkpoint
from ttsfamilies.talkers import load

_NEAR: Final = 8


class Said(NamedTuple):
    """Of each symbol: frames, and its mean pitch in Hz. edges: symbols since or until a cut. at:
    its place in the utterance, of which cuts leave out spaces.
    """

    lasts: Tensor
    hertz: Tensor
    edges: Tensor
    at: Tensor


@torch.inference_mode()
def said(talker: Kokoro, text: str, *, cut: bool) -> Said:
    """An utterance in its segments, or whole; silence at ends is left out."""
    prepared = talker.prepare(SpeechRequest("r", "m", "af_heart", text))
    whole = spoken(talker._ways["en-US"](text, ()))
    parts, begin = [], 0
    for part in Breaths().cut(whole) if cut else [whole]:
        segment = prepared._segment(part)
        hidden = talker._net.bert(torch.tensor(segment.ids))
        pace, style = torch.from_numpy(segment.pace), torch.from_numpy(segment.style)
        lasts, curves = talker._net(hidden, pace, style)
        spans = curves[0].view(-1, 2).mean(1).split(lasts.tolist())
        hertz = torch.stack([span.mean() for span in spans])
        count = len(lasts) - 2
        edges = torch.minimum(torch.arange(count), torch.arange(count - 1, -1, -1))
        begin = whole.symbols.index(part.symbols, begin)
        parts.append(Said(lasts[1:-1], hertz[1:-1], edges, begin + torch.arange(count)))
        begin += count
    return Said(*(torch.cat(field) for field in zip(*parts, strict=True)))


def differences(talker: Kokoro) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Of sentences that are cut, by symbol: whether near a cut, frames more, semitones higher."""
    for sentence in (*MEDIUM, *LONG):
        whole, parts = said(talker, sentence, cut=False), said(talker, sentence, cut=True)
        if len(whole.lasts) > len(parts.lasts):
            at = parts.at
            near = (parts.edges < _NEAR) & (whole.edges[at] >= _NEAR)
            higher = 12 * torch.log2(parts.hertz / whole.hertz[at])
            yield near, (parts.lasts - whole.lasts[at]).float(), higher


def main() -> None:
    """Print what changes near cuts and elsewhere."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as name:
        write_checkpoint(Path(name), size="82m")
        talker = load("m", Path(name))
        assert isinstance(talker, Kokoro)
        found = [torch.cat(field) for field in zip(*differences(talker), strict=True)]
    near, frames, semitones = found
    for where, some in (("near a cut", near), ("elsewhere", ~near)):
        changed = float((frames[some] != 0).float().mean())
        higher = float(np.sqrt(np.mean(semitones[some].numpy() ** 2)))
        print(
            f"{where}: {int(some.sum())} symbols, {changed:.0%} of other length, mean"
            f" {float(frames[some].mean()):+.2f} frames; pitch {higher:.2f} semitones (rms)"
        )


if __name__ == "__main__":
    main()
