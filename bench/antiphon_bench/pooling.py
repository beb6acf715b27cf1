"""First sound against requests a second: a pool, one request at a time, and static batches.

The incremental paper's comparison (Du et al., 2023) on its own models, Tacotron 2 and HiFi-GAN,
with weights drawn from a seed, in one process and one run. The pool is the talker's and the
vocoder's own engines: a request joins at the next step, and each stage takes all that wait for it.
One at a time streams as the pool does, but a request waits for those before it. A static batch
takes all that wait when the batch before it is done, and its sound is there when every model is
through with all of it.

On a CPU time is what this process computes, on one core, and gaps without work are skipped: what
other programs do delays no listener.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from antiphon_bench.stats import percentile
from antiphon_bench.theme import THEMES, Theme, figure
from talker.engine.engine import Engine as TalkerEngine
from talker.engine.stream import ChunkReady
from ttscommon.engine.device.device import device_of
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, concatenate
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.piper.phones import characters
from ttsfamilies.tacotron2.codec.codec import Overlap, OverlappingCodec, TacotronCodec
from ttsfamilies.tacotron2.codec.net import load_vocoder
from ttsfamilies.tacotron2.family import Tacotron2
from ttsfamilies.tacotron2.net import load_net
from ttsfamilies.tacotron2.synthetic import PUBLISHED, write_checkpoint
from vocoder.engine.engine import Engine as VocoderEngine
from vocoder.engine.scheduler import BatchLimits
from vocoder.engine.stream import DecodedAudio

Way = Literal["pool", "one at a time", "static batches"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)
SMALL: Final = replace(
    PUBLISHED, text=128, prenet=(64, 64), listening=256, speaking=256, attention=64
)
# The paper's chunks, and its mixture of texts, in seconds of sound.
_CHUNK, _AGAIN = 32, 8
_LENGTHS_S: Final = (2.64, 4.08, 7.0)
_TEXT: Final = "The old bridge was closed for repairs, so we walked along the river"
_NEVER: Final = -1e6
_SLOTS: Final = 256


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Of one way at one rate: seconds until the first sound, and until the last. heard: requests
    that had theirs when the run ended; the others count with what they had waited by then.
    """

    way: str
    rate: float
    requests: int
    heard: int
    first_p50_s: float
    first_p90_s: float
    last_p50_s: float


@dataclass
class Listener:
    """at_s: when it asks, since the run began. frames: of its speech."""

    key: str
    at_s: float
    frames: int
    first_s: float | None = None
    last_s: float | None = None
    chunks: list[Arrays] = field(default_factory=list)


@dataclass(frozen=True)
class Models:
    """Both halves of a checkpoint."""

    talker: Tacotron2
    codec: Codec


class Clock:
    """Seconds of computing and of gaps. wall: those that pass, for a device that computes aside."""

    def __init__(self, *, wall: bool) -> None:
        self._wall = wall
        self._read = time.perf_counter if wall else time.process_time
        self._began_s, self._skipped_s = self._read(), 0.0

    @property
    def now(self) -> float:
        return self._read() - self._began_s + self._skipped_s

    def wait_until(self, at_s: float) -> None:
        gap_s = max(0.0, at_s - self.now)
        if self._wall:
            time.sleep(gap_s)
        else:
            self._skipped_s += gap_s


class Server:
    """Both stages in one thread, whose requests are let in by one of the ways."""

    def __init__(self, models: Models, way: Way) -> None:
        self._way, self._family = way, models.talker
        sizes = ChunkSizes(_CHUNK, _CHUNK, growth=1.0, busy_growth=0.0)
        self._talker = TalkerEngine(
            models.talker,
            slots=_SLOTS,
            metrics=Metrics(),
            sizes=sizes,
            depth=models.talker.depth,
        )
        limits = BatchLimits(streams=32, frames=8 * _CHUNK, stream_frames=_CHUNK)
        self._vocoder = VocoderEngine(models.codec, slots=_SLOTS, metrics=Metrics(), limits=limits)
        self._talker.listen(self._talked)
        self._vocoder.listen(self._sounded)
        self._waiting: list[Listener] = []
        self._open: dict[str, Listener] = {}
        self._talking: set[str] = set()
        self.clock = Clock(wall=models.talker.device is not None)

    def submit(self, listener: Listener) -> None:
        self._waiting.append(listener)

    def turn(self) -> None:
        """Let requests in, and have each stage take a step."""
        for listener in self._admitted():
            self._begin(listener)
        for engine in (self._talker, self._vocoder):
            engine.cancel("")  # a command, so that a step without work does not wait for one
            engine.step()

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._open)

    def _admitted(self) -> Sequence[Listener]:
        if self._way == "pool":
            count = _SLOTS - len(self._open)
        else:
            most = 1 if self._way == "one at a time" else _SLOTS
            count = 0 if self._open else most
        admitted, self._waiting = self._waiting[:count], self._waiting[count:]
        return admitted

    def _begin(self, listener: Listener) -> None:
        key, sampling = listener.key, Sampling(max_new_tokens=listener.frames)
        request = SpeechRequest(key, "m", "", _TEXT, seed=1, sampling=sampling)
        prepared = self._family.prepare(request)
        self._open[key] = listener
        self._talking.add(key)
        units = list(prepared.read([Text(_TEXT)], final=True))
        self._talker.open(prepared, None, units, final=True)
        self._vocoder.open(request)

    def _talked(self, events: Sequence[tuple[str, Any]]) -> None:
        for key, event in events:
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, ChunkReady):
                self._talker.acknowledge(key)
                self._open[key].chunks.append(event.arrays)
                if self._way != "static batches":
                    self._vocode(key)
            else:
                self._talking.discard(key)
                self._spoken(key)

    def _spoken(self, key: str) -> None:
        """A stream's talker is done; of a static batch the vocoder begins when all are."""
        if self._way != "static batches":
            self._vocoder.finish(key)
        elif not self._talking:
            for each in self._open:
                self._vocode(each)
                self._vocoder.finish(each)

    def _vocode(self, key: str) -> None:
        chunks, self._open[key].chunks = self._open[key].chunks, []
        if chunks:
            self._vocoder.feed(key, concatenate(chunks))

    def _sounded(self, events: Sequence[tuple[str, Any]]) -> None:
        for key, event in events:
            if isinstance(event, Failed):
                raise event.error
            listener = self._open[key]
            streams = self._way != "static batches"
            if isinstance(event, DecodedAudio) and streams and listener.first_s is None:
                listener.first_s = self.clock.now
            if isinstance(event, Finished):
                listener.last_s = self.clock.now
                listener.first_s = listener.first_s or listener.last_s
                del self._open[key]


def listeners(rate: float, seconds: float, frame_rate_hz: float) -> list[Listener]:
    """Even arrivals, as the paper has them, of short, medium and long texts in turn."""
    return [
        Listener(f"r{n}", n / rate, round(_LENGTHS_S[n % len(_LENGTHS_S)] * frame_rate_hz))
        for n in range(max(1, round(rate * seconds)))
    ]


def measure(models: Models, way: Way, rate: float, seconds: float, patience_s: float) -> Point:
    """One way at one rate: arrivals for `seconds`, then at most `patience_s` more."""
    coming = listeners(rate, seconds, models.talker.spec.frame_rate_hz)
    every, server = list(coming), Server(models, way)
    while coming or server.busy:
        while coming and coming[0].at_s <= server.clock.now:
            server.submit(coming.pop(0))
        if server.clock.now > seconds + patience_s:
            break
        if server.busy:
            server.turn()
        else:
            server.clock.wait_until(coming[0].at_s)
    return _point(way, rate, every, server.clock.now)


def _point(way: str, rate: float, every: Sequence[Listener], now: float) -> Point:
    first = sorted((now if one.first_s is None else one.first_s) - one.at_s for one in every)
    last = sorted((now if one.last_s is None else one.last_s) - one.at_s for one in every)
    return Point(
        way=way,
        rate=rate,
        requests=len(every),
        heard=sum(one.first_s is not None for one in every),
        first_p50_s=percentile(first, 0.5),
        first_p90_s=percentile(first, 0.9),
        last_p50_s=percentile(last, 0.5),
    )


def models(folder: Path, *, published: bool, exact: bool, device: str = "cpu") -> Models:
    """Draw a checkpoint that never ends by itself, and load both halves of it."""
    sizes, generator = (PUBLISHED, "v2") if published else (SMALL, "tiny")
    write_checkpoint(folder, ending=_NEVER, sizes=sizes, generator=generator)
    net, config = load_net(folder, device)
    talker = Tacotron2("m", net, config, characters)
    talker.compute_on(device_of(device))
    vocoder, _ = load_vocoder(folder, device)
    if exact:
        return Models(talker, TacotronCodec("m", vocoder, config))
    return Models(talker, OverlappingCodec("m", vocoder, config, Overlap(_CHUNK, _AGAIN)))


def compare(
    made: Models, rates: Sequence[float], seconds: float, patience_s: float
) -> Iterator[Point]:
    """Every way at every rate, behind a request that warms up."""
    measure(made, "pool", 2.0, 1.0, patience_s)
    for rate in rates:
        for way in WAYS:
            yield measure(made, way, rate, seconds, patience_s)


def plot(points: Sequence[Point], theme: Theme, title: str) -> Figure:
    """p50 of the first sound, with p90 thin, against requests a second (the paper's figure 3)."""
    with figure(theme, 8.0, 4.4) as fig:
        axes = fig.subplots()
        for way, colour in zip(WAYS, theme.series, strict=False):
            own = sorted((p for p in points if p.way == way), key=lambda p: p.rate)
            rates = [p.rate for p in own]
            axes.plot(rates, [1e3 * p.first_p50_s for p in own], "o-", color=colour, label=way)
            axes.plot(rates, [1e3 * p.first_p90_s for p in own], "--", lw=1, color=colour)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel("ms to the first sound (dashed: p90)")
        axes.set_xlabel("requests a second")
        axes.set_title(title)
        axes.legend()
    return fig


def _line(p: Point) -> str:
    times = (p.first_p50_s, p.first_p90_s, p.last_p50_s)
    cells = " | ".join(f"{1e3 * seconds:.0f}" for seconds in times)
    return f"| {p.rate:g} | {p.way} | {p.heard} of {p.requests} | {cells} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="antiphon bench pooling", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--rates", default="1,2,4,8", help="requests a second")
    parser.add_argument("--seconds", type=float, default=3.0, help="of arrivals, for each rate")
    parser.add_argument("--patience", type=float, default=4.0, help="seconds more, at the most")
    parser.add_argument("--published", action="store_true", help="published widths, generator V2")
    parser.add_argument("--exact", action="store_true", help="carried state instead of overlaps")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="a folder for points.json and the pictures")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rates = [float(rate) for rate in given.rates.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        made = models(
            Path(folder), published=given.published, exact=given.exact, device=given.device
        )
    print("| requests/s | way | heard | first p50 ms | p90 ms | last p50 ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    points = []
    for point in compare(made, rates, given.seconds, given.patience):
        points.append(point)
        print(_line(point), flush=True)
    if given.out is not None:
        write(points, given.out)


def write(points: Sequence[Point], out: Path) -> None:
    """points.json, and the plot for light and for dark pages."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "points.json").write_bytes(msgspec.json.format(msgspec.json.encode(list(points))))
    for theme in THEMES:
        title = "First sound of Tacotron 2 and HiFi-GAN against load"
        plot(points, theme, title).savefig(out / f"pooling-{theme.name}.svg")


if __name__ == "__main__":
    main()
