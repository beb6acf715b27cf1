"""Kokoro's first sound beside the published package's, in one process, one thread, in turns.

    PYTHONPATH=build/goldens/official/lib/python3.11/site-packages \\
        .venv/bin/antiphon bench parity-kokoro [ROUNDS]

Random weights of the published size; every symbol lasts as long as makes 14 a second. Seconds are
the thread's own (CPU), so that other programs matter little.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from talker.engine.engine import Engine as Talker
from talker.engine.stream import ChunkReady
from tests.parity.reference import kokoro as reference
from ttscommon.engine.conversion import convert
from ttscommon.engine.runtime import Finished
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.kokoro.family import Kokoro
from ttsfamilies.kokoro.phones import spoken
from ttsfamilies.kokoro.synthetic import write_checkpoint
from ttsfamilies.talkers import load as load_talker
from vocoder.engine.engine import Engine as Vocoder
from vocoder.engine.stream import DecodedAudio

_SENTENCES: Final = (
    "The ferry leaves the harbour at seven.",
    "If the wind is against us, we will wait until noon, and nobody on board will mind, because"
    " there is coffee and a good view of the old lighthouse.",
    "My grandfather kept the light for thirty years, and he used to say that the sea is never the"
    " same twice; he wrote down every storm in a small book, which I still have, and on winter"
    " evenings we read a page or two before we turn off the lamp.",
)
TEXTS: Final = {
    8: "The ferry leaves the harbour at seven today.",
    25: _SENTENCES[1],
    60: " ".join(_SENTENCES[1:]),
}
_LASTS: Final = (3, 3, 3, 3, 3, 3, 2)


class Spent(NamedTuple):
    """Seconds of the thread, and of sound."""

    first: float
    talker: float
    vocoder: float
    sound: float


def evenly(layer: torch.nn.Module) -> None:
    """Have the layer that says durations say these, whatever it is shown."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        count = x.shape[-2]
        lasts = torch.tensor(_LASTS).repeat(count)[:count, None]
        said = torch.where(torch.arange(50) < lasts, 40.0, -40.0)
        return said if x.ndim == 2 else said[None]

    layer.forward = forward


def ours(talker: Kokoro, codec: Codec, text: str) -> Spent:
    """Both stages by hand, one after the other."""
    request = SpeechRequest("r", "m", "af_heart", text, seed=1)
    chunks: list[Any] = []
    engine = Talker(talker, slots=1, metrics=Metrics())
    engine.listen(lambda events: chunks.extend((event, time.thread_time()) for _, event in events))
    began = time.thread_time()
    prepared = talker.prepare(request)
    engine.open(prepared, None, list(prepared.read([Text(text)], final=True)), final=True)
    while not (chunks and isinstance(chunks[-1][0], Finished)):
        engine.step()
        engine.acknowledge("r")
    frames = [(event.arrays, at - began) for event, at in chunks if isinstance(event, ChunkReady)]
    pieces: list[float] = []
    vocoder = Vocoder(codec, slots=1, metrics=Metrics())
    events: list[Any] = []
    vocoder.listen(lambda found: events.extend((event, time.thread_time()) for _, event in found))
    started = time.thread_time()
    vocoder.open(request)
    for arrays, _ in frames:
        vocoder.feed("r", arrays)
    vocoder.finish("r")
    while not (events and isinstance(events[-1][0], Finished)):
        vocoder.step()
    pieces = [at - started for event, at in events if isinstance(event, DecodedAudio)]
    sound = sum(rows(arrays) for arrays, _ in frames) / 40
    return Spent(frames[0][1] + pieces[0], frames[-1][1], events[-1][1] - started, sound)


def theirs(model: Any, folder: Path, phones: str) -> Spent:
    """The whole text in one forward, as the package does it."""
    style = torch.load(folder / "voices" / "af_heart.pt")[len(phones) - 1]
    began = time.thread_time()
    with torch.inference_mode():
        audio = model(phones, style, 1.0)
    took = time.thread_time() - began
    return Spent(took, 0.0, 0.0, len(audio) / 24_000)


def compared(folder: Path, rounds: int) -> Iterator[str]:
    """A line for each length."""
    talker, codec = load_talker("m", folder), load_codec("m", folder)
    assert isinstance(talker, Kokoro)
    model = reference.load(folder)
    for network in (talker._net, model):
        evenly(network.predictor.duration_proj.linear_layer)
    ours(talker, codec, TEXTS[8])  # warms up
    for words, text in TEXTS.items():
        phones = "".join(part.symbols for part in [spoken(talker._ways["en-US"](text, ()))])
        pairs = [(ours(talker, codec, text), theirs(model, folder, phones)) for _ in range(rounds)]
        one, other = (Spent(*np.median([pair[side] for pair in pairs], 0)) for side in (0, 1))
        yield (
            f"{words} words: first sound {one.first:.2f} s, package {other.first:.2f} s"
            f" ({other.sound:.1f} s of sound); whole: talker {one.talker / one.sound:.3f} and"
            f" vocoder {one.vocoder / one.sound:.2f} of real time, package"
            f" {other.first / other.sound:.2f}"
        )


def main() -> None:
    """Write a checkpoint, and compare."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(folder, size="82m", pickles=True)
        convert(folder)
        for line in compared(folder, int(sys.argv[1]) if len(sys.argv) > 1 else 2):
            print(line, flush=True)


if __name__ == "__main__":
    main()
