"""What `antiphon say` shows, and where the sound goes."""

import io
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from antiphon import say
from antiphon.client import Audio, Event, Finished, SpeechOptions, Started
from antiphon.say import Heard, Meter
from gateway.audio import Provenance

RATE = 16_000
TONE = (8000 * np.sin(np.arange(RATE) * 0.1)).astype("<i2").tobytes()


class Memory:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.rate = 0
        self.pcm = b""
        self.closed = False

    def open(self, sample_rate: int, provenance: Provenance | None = None) -> None:
        self.rate, self.provenance = sample_rate, provenance

    def write(self, pcm: bytes) -> None:
        self.pcm += pcm

    def close(self) -> None:
        self.closed = True


async def said(
    monkeypatch: pytest.MonkeyPatch, *events: Event, width: int = 100
) -> tuple[str, Memory]:
    async def answer(*_: Any) -> AsyncIterator[Event]:
        for event in events:
            yield event

    monkeypatch.setattr(say, "speak", answer)
    output, sink = io.StringIO(), Memory()
    console = Console(file=output, width=width)
    await say.run("http://x", say.whole("Hello."), SpeechOptions(), [sink], console)
    return output.getvalue(), sink


async def test_the_sound_goes_to_the_sink_and_the_figures_to_the_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = Started("r1", RATE, "slt", 7)
    totals = {"samples": 2 * RATE, "stages": {"bus_s": 0.003, "talker_s": 0.0251}}
    text, sink = await said(monkeypatch, started, Audio(TONE), Audio(TONE), Finished("ok", totals))
    assert (sink.rate, sink.pcm, sink.closed) == (RATE, TONE * 2, True)
    for part in (
        "first sound",
        "(talker 25, bus 3)",
        "audio 2.00 s",
        "realtime factor",
        "voice slt, seed 7",
    ):
        assert part in text


@pytest.mark.parametrize("width", [50, 60, 80, 100])
async def test_no_figure_is_parted_from_its_name(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    stages = {"talker_s": 0.234, "vocoder_s": 0.061, "bus_s": 0.025}
    started, done = Started("r1", RATE, "slt", 7), Finished("ok", {"stages": stages})
    text, _ = await said(monkeypatch, started, Audio(TONE), done, width=width)
    lines = [line.rstrip() for line in text.splitlines()]
    for name, value in (
        ("first sound", r"\d+ ms \(talker 234, vocoder 61, bus 25\)"),
        ("audio", r"1\.00 s"),
        ("realtime factor", r"\d\.\d\d"),
        ("least slack", "-"),
    ):
        assert any(re.search(f"{name} {value}(   |$)", line) for line in lines), lines


async def test_a_long_sound_is_drawn_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    started, done = Started("r1", RATE, "slt", 7), Finished("ok", {})
    text, _ = await said(monkeypatch, started, *[Audio(TONE)] * 60, done, width=80)
    bars = [line for line in text.splitlines() if set(line.strip()) & set("▁▂▃▄▅▆▇█")]
    assert len(bars) == 1
    assert 40 < len(bars[0]) <= 80


@pytest.mark.parametrize("busy", [True, False])
async def test_a_machine_that_is_too_busy_is_told(
    monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    started, done = Started("r1", RATE, "slt", 7), Finished("ok", {"busy": busy})
    text, _ = await said(monkeypatch, started, Audio(TONE), done)
    assert ("too busy" in text) == busy


async def test_a_text_that_was_lost_is_told_with_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    started, lost = Started("r1", RATE, "slt", 7), Finished("runaway", {"reached": "bridge"})
    text, _ = await said(monkeypatch, started, Audio(TONE), lost)
    assert "lost its text behind 'bridge'" in text


async def test_files_say_what_the_gateway_says_of_the_origin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = Started("r1", RATE, "slt", 7, "vesper", synthetic=True, generated_by="Harbour Radio")
    _, told = await said(monkeypatch, started, Audio(TONE), Finished("ok", {}))
    assert told.provenance == Provenance("vesper", "Harbour Radio")
    plain = replace(started, synthetic=False)
    assert (await said(monkeypatch, plain, Audio(TONE)))[1].provenance is None


async def test_silence_is_said_to_be_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    text, sink = await said(monkeypatch, Finished("cancelled", {}))
    assert "nothing was said" in text
    assert sink.closed


async def test_a_sink_that_fails_is_an_error_and_the_others_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(_: Memory, pcm: bytes) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Memory, "write", full)
    with pytest.raises(OSError, match="disk full"):
        await said(monkeypatch, Started("r1", RATE, "slt", 7), Audio(TONE), Finished("ok", {}))


def test_the_meter_does_not_depend_on_how_the_sound_is_cut() -> None:
    whole, cut = Meter(), Meter()
    whole.feed(TONE, RATE)
    for start in range(0, len(TONE), 998):
        cut.feed(TONE[start : start + 998], RATE)
    assert str(whole) == str(cut)
    assert len(str(whole)) == 12


def test_silence_is_an_empty_bar_and_loud_a_full_one() -> None:
    meter = Meter()
    meter.feed(bytes(2560), RATE)
    meter.feed(np.full(1280, 30_000, "<i2").tobytes(), RATE)
    assert str(meter) == " █"


SECOND = b"\0\0" * 1000


def test_waits_are_counted_from_the_first_text_sent() -> None:
    one = Heard(10.0)
    one.take(Started("a request", 1000, "slt", 0))
    one.hear(SECOND[:1000], 10.1)
    one.hear(SECOND[:1000], 10.4)
    assert one.ttfp_s == pytest.approx(0.1)
    assert one.realtime_factor == pytest.approx(0.4)
    assert one.playback is not None
    assert one.playback.min_slack_s == pytest.approx(0.2)
