"""HiFi-GAN by carried state and in chunks that overlap: how far off one shot, and at what cost.

Tacotron 2's postnet and a generator of published widths, with weights drawn from a seed, decode mel
frames that change as slowly as speech does.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch

from ttscommon.wire.fields import Arrays, cut
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Samples, Work
from ttsfamilies.tacotron2.codec.codec import Overlap, OverlappingCodec, TacotronCodec
from ttsfamilies.tacotron2.codec.net import load_vocoder
from ttsfamilies.tacotron2.synthetic import GENERATORS, PUBLISHED, write_checkpoint

_CHUNK: Final = 32
_SMOOTH: Final = np.full(9, 1 / 3)
_REQUEST: Final = SpeechRequest("r", "m", "", "text")


class Found(NamedTuple):
    """Of one way: the root of the mean square of what differs from one shot and the most of it, in
    shares of the sound's own; processor seconds for a second of sound; milliseconds of sound that
    the first chunk gives.
    """

    way: str
    off: float
    most: float
    cost: float
    first_ms: float


def mel(frames: int) -> Arrays:
    """A sentence."""
    drawn = np.random.default_rng(1).standard_normal((PUBLISHED.mels, frames + len(_SMOOTH) - 1))
    slow = np.stack([np.convolve(row, _SMOOTH, "valid") for row in drawn], 1)
    begins = (np.arange(frames) == 0).astype(np.uint8)
    return {"mel": slow.astype(np.float32), "begins": begins}


def decoded(codec: TacotronCodec, frames: Arrays, size: int) -> tuple[list[Samples], float]:
    """Samples of each piece of so many frames, and how long it took."""
    count, began = len(frames["begins"]), time.process_time()
    state, found = codec.open(_REQUEST), []
    for at in range(0, count, size):
        last = at + size >= count
        found += codec.decode([Work(state, cut(frames, at, at + size), final=last)])
    return found, time.process_time() - began


def compare(folder: Path, frames: int) -> Iterator[Found]:
    """Every way, after one shot."""
    net, config = load_vocoder(folder)
    exact, told = TacotronCodec("m", net, config), mel(frames)
    seconds = frames / config.frame_rate_hz
    (whole,), took_s = decoded(exact, told, frames)
    yield Found("one shot", 0.0, 0.0, took_s / seconds, 1e3 * seconds)
    ways = {"carried state": exact}
    for power in (False, True):
        for again in (4, 8, 16):
            fade = "equal power" if power else "shares of one"
            overlap = Overlap(_CHUNK, again, power)
            ways[f"overlap {again}, {fade}"] = OverlappingCodec("m", net, config, overlap)
    for name, codec in ways.items():
        pieces, took_s = decoded(codec, told, _CHUNK)
        differs = (np.concatenate(pieces) - whole) / whole.std()
        first_ms = 1e3 * len(pieces[0]) / config.sampling_rate
        off, most = float(np.sqrt(np.square(differs).mean())), float(np.abs(differs).max())
        yield Found(name, off, most, took_s / seconds, first_ms)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="antiphon bench overlaps", description=(__doc__ or "").partition("\n")[0]
    )
    published = [name for name in GENERATORS if name != "tiny"]
    parser.add_argument("--generator", choices=published, default="v2")
    parser.add_argument("--frames", type=int, default=256)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| way | off | at most | s for a second | first chunk, ms of sound |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), sizes=PUBLISHED, generator=given.generator)
        for one in compare(Path(folder), given.frames):
            shares = f"{one.off:.1e} | {one.most:.1e} | {one.cost:.3f}"
            print(f"| {one.way} | {shares} | {one.first_ms:.0f} |", flush=True)


if __name__ == "__main__":
    main()
