"""`antiphon say`: speak, show how it went."""

from __future__ import annotations

import asyncio
import codecs
import os
import queue
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from antiphon.client import (
    Audio,
    Event,
    Finished,
    SpeechOptions,
    Started,
    Word,
    Words,
    speak,
)
from antiphon.sinks import Sink, close_all
from antiphon.texts import Requests
from gateway.audio import Provenance
from ttscommon.sound.playback import PlaybackAccount

_BYTES_PER_SAMPLE: Final = 2
_BARS: Final = " ▁▂▃▄▅▆▇█"
_BAR_S: Final = 0.08
_FLOOR_DB: Final = -50.0
_READ_BYTES: Final = 4096
_GAP: Final = "   "


class Meter:
    """The loudness of what came so far, one bar for every 80 ms."""

    def __init__(self) -> None:
        self._bars: list[str] = []
        self._rest = b""

    def feed(self, pcm: bytes, sample_rate: int) -> None:
        """Take s16le samples."""
        step = int(_BAR_S * sample_rate) * 2
        data = self._rest + pcm
        whole = len(data) - len(data) % step
        self._rest = data[whole:]
        for start in range(0, whole, step):
            self._bars.append(_bar(data[start : start + step]))

    def within(self, columns: int) -> str:
        """At most so many bars: of a longer sound each stands for the loudest of several."""
        span = max(1, -(-len(self._bars) // columns))
        return "".join(max(self._bars[at : at + span]) for at in range(0, len(self._bars), span))

    def __str__(self) -> str:
        return "".join(self._bars)


def _bar(pcm: bytes) -> str:
    samples = np.frombuffer(pcm, "<i2").astype(np.float64) / 32768
    level_db = 10 * np.log10(np.mean(samples**2) + 1e-10)
    height = (level_db - _FLOOR_DB) / -_FLOOR_DB * 1.3
    return _BARS[int(np.clip(height, 0, 1) * (len(_BARS) - 1))]


@dataclass
class Heard:
    """What came so far: playback, the words, and what the server says of it.

    Times are seconds of one monotonic clock. asked_s: when the first text was sent. last_s: when
    the last sound came. lost: the words behind which a model lost its text, empty where they are
    not known. busy: the server had too much to do to speak in time.
    """

    asked_s: float
    last_s: float = 0.0
    playback: PlaybackAccount | None = None
    meter: Meter = field(default_factory=Meter)
    words: list[Word] = field(default_factory=list)
    started: Started | None = None
    totals: dict[str, Any] = field(default_factory=dict)
    before_s: float = 0.0
    lost: list[str] = field(default_factory=list)
    busy: bool = False

    def take(self, event: Event) -> None:
        match event:
            case Started():
                self._start(event)
            case Audio(pcm):
                self.hear(pcm, time.monotonic())
            case Words(words):
                self.words += [word.later(self.before_s) for word in words]
            case Finished(outcome, totals):
                self.totals = self.totals or totals
                self.busy |= bool(totals.get("busy"))
                if outcome == "runaway":
                    self.lost.append(totals.get("reached") or "")

    def _start(self, started: Started) -> None:
        """The first of a text's requests counts; the words of others are timed from its start."""
        self.before_s = self.audio_s
        if self.started is None:
            self.started = started
            self.playback = PlaybackAccount(started.sample_rate)

    def hear(self, pcm: bytes, now_s: float) -> None:
        """Audio arrived, s16le, behind its start."""
        assert self.playback is not None, "the start of a request says its rate"
        self.playback.feed(len(pcm) // _BYTES_PER_SAMPLE, now_s)
        self.meter.feed(pcm, self.playback.sample_rate)
        self.last_s = now_s

    @property
    def audio_s(self) -> float:
        return self.playback.duration_s if self.playback else 0.0

    @property
    def ttfp_s(self) -> float | None:
        """First text sent to first audio received."""
        first_s = self.playback.first_at_s if self.playback else None
        return None if first_s is None else first_s - self.asked_s

    @property
    def realtime_factor(self) -> float | None:
        """Time until all audio was there, over its duration."""
        return (self.last_s - self.asked_s) / self.audio_s if self.audio_s else None


async def run(
    url: str,
    text: AsyncIterator[str],
    options: SpeechOptions,
    sinks: Sequence[Sink],
    console: Console,
    key: str | None = None,
) -> Heard:
    """Speak `text` into the sinks, however long it is; raises GatewayError."""
    heard = Heard(time.monotonic())
    outbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    writing = asyncio.create_task(asyncio.to_thread(_drain, outbox, sinks))
    try:
        with Live(console=console, refresh_per_second=12, transient=True) as live:
            async for request in Requests(_timed(text, heard)):
                async for event in speak(url, request, _like(options, heard.started), key):
                    if not (isinstance(event, Started) and heard.started):
                        outbox.put(event)
                    heard.take(event)
                    if isinstance(event, Audio):
                        live.update(_progress(heard, console.width))
        console.print(_summary(heard, console.width), highlight=False)
    finally:
        outbox.put(None)
        await writing
    return heard


def _like(options: SpeechOptions, started: Started | None) -> SpeechOptions:
    """The same speaker for all requests of a text."""
    if started is None:
        return options
    seed = started.seed if options.seed is None else options.seed
    return replace(options, seed=seed, voice=started.voice)


def _drain(outbox: queue.SimpleQueue[Event | None], sinks: Sequence[Sink]) -> None:
    """Write in a thread of its own: a player blocks, and the measurement must not."""
    try:
        while (event := outbox.get()) is not None:
            for sink in sinks:
                if isinstance(event, Started):
                    sink.open(event.sample_rate, origin_of(event))
                elif isinstance(event, Audio):
                    sink.write(event.pcm)
    finally:
        close_all(sinks)


def origin_of(started: Started) -> Provenance | None:
    """What files say of it: what the gateway says, if it does."""
    return Provenance(started.model, started.generated_by) if started.synthetic else None


async def _timed(text: AsyncIterator[str], heard: Heard) -> AsyncIterator[str]:
    """Start the clock when the first text leaves, not when the command did."""
    first = True
    async for piece in text:
        if first:
            heard.asked_s = time.monotonic()
            first = False
        yield piece


def _progress(heard: Heard, width: int) -> Text:
    loudness = str(heard.meter)[-(width - 12) :]
    return Text.assemble((f"{heard.audio_s:6.2f} s ", "dim"), (loudness, "cyan"))


def _summary(heard: Heard, width: int) -> Text:
    started, playback, factor = heard.started, heard.playback, heard.realtime_factor
    if started is None or playback is None or heard.ttfp_s is None or factor is None:
        return Text("nothing was said", style="yellow")
    stages: dict[str, float] = heard.totals.get("stages", {})
    facts = [
        ("first sound", _milliseconds(heard.ttfp_s) + _of_which(stages)),
        ("audio", f"{heard.audio_s:.2f} s"),
        ("realtime factor", f"{factor:.2f}"),
        ("least slack", _milliseconds(playback.min_slack_s)),
    ]
    if playback.underruns:
        facts.insert(4, ("gaps", _milliseconds(playback.underrun_s)))
    text = _in_lines([_figure(name, value) for name, value in facts], width)
    origin = f"voice {started.voice}, seed {started.seed}, request {started.request_id}"
    if heard.busy:
        text.append("\nthe machine was too busy to speak in time", style="yellow")
    for word in heard.lost:
        where = f"behind '{word}'" if word else "before its end"
        text.append(f"\nthe model lost its text {where}: another --seed may help", style="yellow")
    return Text.assemble((heard.meter.within(width), "cyan"), "\n", text, "\n", (origin, "dim"))


def _figure(name: str, value: str) -> Text:
    style = "red" if name == "gaps" else "bold" if name == "first sound" else ""
    return Text.assemble((f"{name} ", "dim"), (value, style))


def _in_lines(figures: Sequence[Text], width: int) -> Text:
    """As many in a line as it holds; a figure stays with its name."""
    lines = [figures[0]]
    for figure in figures[1:]:
        if len(lines[-1]) + len(_GAP) + len(figure) <= width:
            lines[-1] = Text.assemble(lines[-1], _GAP, figure)
        else:
            lines.append(figure)
    return Text("\n").join(lines)


def _of_which(stages: dict[str, float]) -> str:
    """Where the wait for the first sound went, as far as the server says."""
    parts = [
        f"{name} {stages[f'{name}_s'] * 1e3:.0f}"
        for name in ("talker", "vocoder", "bus")
        if f"{name}_s" in stages
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.0f} ms"


Source: TypeAlias = AsyncIterator[str]


async def whole(text: str) -> Source:
    """A text that is known already."""
    yield text


async def from_stdin() -> Source:
    """Standard input as it comes, so that `llm | antiphon say` speaks while the model writes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := await asyncio.to_thread(os.read, sys.stdin.fileno(), _READ_BYTES):
        if piece := decoder.decode(data):
            yield piece
    if rest := decoder.decode(b"", final=True):
        yield rest
