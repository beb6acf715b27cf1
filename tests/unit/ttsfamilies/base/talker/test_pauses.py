"""Pauses of models that have none: silent frames between parts that are spoken as if alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from tests.turning import turn
from tests.unit.ttsfamilies.orpheus.tiny import tiny as orpheus
from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny as qwen3
from tests.unit.ttsfamilies.test_conformance import Bench, Heard, agree, on_a_device, same
from tests.unit.ttsfamilies.tiny_vesper import tiny as vesper
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.wire.errors import AntiphonError, NothingToSay
from ttscommon.wire.fields import Arrays, concatenate, cut, rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.base.talker.base import Family
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.base.talker.served import ServedFamily, Silence

FAMILIES: dict[str, Callable[[], Family]] = {
    "qwen3-tts": qwen3,
    "qwen3-tts, whole texts": partial(qwen3, streaming=False),
    "orpheus": orpheus,
    "qwen3-tts on a device": partial(on_a_device, qwen3),
}
LONG = ("qwen3-tts, whole texts", "orpheus", "qwen3-tts on a device")
ONE, TWO, THREE = "One small step.", "Then another!", "The end"
PAUSED: Sequence[Piece] = (
    Pause(0.3),
    *(Text(f" {ONE} "), Pause(0.8), Pause(0.4)),
    *(Text(f" {TWO} "), Boundary(), Pause(0.5), Text(" ... "), Pause(0.2)),
    *(Text(f"{THREE} "), Pause(0.6)),
)
# Frames before, between and behind the parts, by rate.
GAPS = {12.5: (4, 10 + 5, 6 + 2, 8), 24_000 / 2048: (4, 9 + 5, 6 + 2, 7)}


# Of a part: 11 frames of Qwen3-TTS, 3 of Orpheus. Some parts end by themselves before that.
SHORT = Sampling(max_new_tokens=12)
SHORT_ORPHEUS = Sampling(max_new_tokens=21)


def request(family: Family, name: str = "r", **changes: Any) -> SpeechRequest:
    sampling = SHORT_ORPHEUS if family.spec.family == "orpheus" else SHORT
    return SpeechRequest(name, "m", "slt", "", seed=7, sampling=sampling, **changes)


def opened(
    bench: Bench, pieces: Sequence[Piece], name: str = "r", restored: Arrays | None = None
) -> Heard:
    """All of a text at once."""
    heard = bench.heard[name] = Heard()
    prepared = bench.engine.family.prepare(request(bench.engine.family, name))
    try:
        units = list(prepared.read(pieces, final=True))
    except AntiphonError as error:
        heard.end = Failed(error)
        return heard
    bench.engine.open(prepared, restored, units, final=True)
    return heard


def spoken(family: Family, *pieces: Piece, restored: Arrays | None = None) -> Heard:
    """Alone."""
    bench = Bench(family, family.depth)
    heard = opened(bench, pieces, restored=restored)
    bench.run()
    return heard


def frames_of(heard: Heard) -> Arrays:
    """What was heard, but for the flags of silence."""
    return {name: array for name, array in heard.arrays.items() if name != "silent"}


@pytest.fixture(
    params=[
        pytest.param(each, marks=pytest.mark.slow if each in LONG else ())
        for each in sorted(FAMILIES)
    ]
)
def plain(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]()


@pytest.fixture
def family(plain: Family) -> Family:
    return ServedFamily(plain, guards=False)


@pytest.fixture(params=["qwen3-tts", "orpheus"])
def on_cpu(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]()


@cache
def whole(name: str) -> Arrays:
    """PAUSED, undisturbed, by the family's name in FAMILIES."""
    heard = spoken(ServedFamily(FAMILIES[name](), guards=False), *PAUSED)
    assert isinstance(heard.end, Finished), heard.end
    return heard.arrays


@pytest.fixture
def undisturbed(request: pytest.FixtureRequest, plain: Family) -> Arrays:
    return whole(request.node.callspec.params["plain"])


def test_each_part_is_what_the_same_text_says_alone(plain: Family, undisturbed: Arrays) -> None:
    gaps = GAPS[plain.spec.frame_rate_hz]
    parts: list[Arrays] = []
    expected: list[int] = []
    for gap, text in zip(gaps, (ONE, TWO, THREE, ""), strict=True):
        expected += [1] * gap
        if text:
            alone = spoken(plain, Text(text)).arrays
            expected += [0] * rows(alone)
            parts.append(alone)
    if plain.exact:
        np.testing.assert_array_equal(undisturbed["silent"], expected)
        said = np.flatnonzero(undisturbed["silent"] == 0)
        same({name: undisturbed[name][said] for name in plain.spec.logged}, concatenate(parts))
    assert not undisturbed["codes"][undisturbed["silent"] == 1].any()


def test_text_without_a_pause_is_what_it_was(on_cpu: Family) -> None:
    texts: list[list[Piece]] = [
        [Text(f"{ONE} ")],
        [Text(ONE), Boundary(), Text(" Yes.")],
        [Phones("two", "")],
    ]
    plain, through = Bench(on_cpu), Bench(ServedFamily(on_cpu, guards=False))
    for i, pieces in enumerate(texts):
        opened(plain, pieces, f"r{i}")
        opened(through, pieces, f"r{i}")
    plain.run()
    through.run()
    for name, heard in through.heard.items():
        same(frames_of(heard), plain.heard[name].arrays)
        assert not heard.arrays["silent"].any()


@pytest.mark.parametrize("depth", [0, 1])
def test_it_is_gone_on_with_behind_any_frame(
    family: Family, depth: int, undisturbed: Arrays
) -> None:
    if depth < family.depth:
        pytest.skip("a device is always a step behind")
    flags = undisturbed["silent"]
    changes = np.flatnonzero(np.diff(flags)) + 1
    near = {change + d for change in changes.tolist() for d in (-1, 0, 1)}
    bench = Bench(family, depth)
    points = sorted(near | {1, 2, len(flags) - 1, len(flags)})
    heard = {}
    for at in points:
        if len(bench.heard) % 16 == 0:
            bench.run()
        restored = cut(undisturbed, 0, at)
        heard[at] = opened(bench, PAUSED, f"r{at}", restored)
    bench.run()
    for at in points:
        assert isinstance(heard[at].end, Finished)
        went_on = [cut(undisturbed, 0, at), *heard[at].chunks]
        agree(family, concatenate(went_on), undisturbed, at)


def test_a_log_without_flags_is_gone_on_with(on_cpu: Family) -> None:
    alone = spoken(on_cpu, Text(ONE)).arrays
    half = rows(alone) // 2
    heard = spoken(ServedFamily(on_cpu, guards=False), Text(ONE), restored=cut(alone, 0, half))
    same(concatenate([cut(alone, 0, half), frames_of(heard)]), alone)


def in_bits(pieces: Sequence[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        if isinstance(piece, Text):
            yield from (Text(piece.text[i : i + 2]) for i in range(0, len(piece.text), 2))
        else:
            yield piece


def test_text_in_pieces_gives_the_same(on_cpu: Family) -> None:
    family = ServedFamily(on_cpu, guards=False)
    live = Bench(family, family.depth)
    heard = live.open(request(family, text_final=False))
    for i, piece in enumerate(in_bits(PAUSED)):
        live.feed("r", piece)
        for _ in range(i % 5):
            turn(live.engine)
    live.feed("r", final=True)
    live.run()
    # The same, told at once: a live text may be laid out otherwise than a whole one.
    known = Bench(family, family.depth)
    expected = known.open(request(family, text_final=False))
    known.feed("r", *PAUSED, final=True)
    known.run()
    agree(family, heard.arrays, expected.arrays)


def test_the_silence_of_a_text_that_stays_away_is_sent_meanwhile(on_cpu: Family) -> None:
    family = ServedFamily(on_cpu, guards=False)
    bench = Bench(family, family.depth)
    heard = bench.open(request(family, text_final=False))
    bench.feed("r", Text(ONE), Pause(10.0))
    for _ in range(400):
        turn(bench.engine)
    gap = round(10.0 * family.spec.frame_rate_hz)
    assert heard.end is None
    assert heard.arrays["silent"].sum() == gap
    parked: list[bool] = []
    bench.engine.park("r", parked.append)
    bench.engine.step()
    assert parked == [True]
    bench.engine.unpark("r")
    bench.feed("r", Text(TWO), final=True)
    bench.run()
    flags = heard.arrays["silent"]
    assert flags.sum() == gap
    assert not flags[-1]


def test_company_eviction_and_short_chunks_change_nothing(
    family: Family, undisturbed: Arrays
) -> None:
    bench = Bench(family, family.depth, sizes=ChunkSizes(1, 7))
    heard = opened(bench, PAUSED)
    others = [opened(bench, [Text(TWO), Pause(0.2 * i), Text(ONE)], f"o{i}") for i in (1, 2, 3)]
    for step in range(5000):
        if heard.end is not None:
            break
        bench.engine.step()
        if step % 9 == 4:
            for stream in bench.engine._slots:
                stream.evict()
    bench.run()
    agree(family, heard.arrays, undisturbed)
    assert all(isinstance(other.end, Finished) for other in others)


def test_cancelled_in_a_silence_leaves_nothing_behind(on_cpu: Family) -> None:
    family = ServedFamily(on_cpu, guards=False)
    bench = Bench(family, family.depth)
    heard = opened(bench, [Pause(10.0), Text(ONE), Pause(10.0), Text(TWO)])
    other = opened(bench, [Text(ONE)], "other")
    while not heard.chunks:
        bench.engine.step()
    bench.engine.cancel("r")
    heard.end = Finished()
    bench.run()
    assert isinstance(other.end, Finished)


@pytest.mark.parametrize("pieces", [[Pause(1.0)], [Pause(1.0), Text("... "), Pause(1.0)]])
def test_pauses_alone_are_refused_without_a_sound(on_cpu: Family, pieces: list[Piece]) -> None:
    heard = spoken(ServedFamily(on_cpu, guards=False), *pieces)
    assert isinstance(heard.end, Failed)
    assert isinstance(heard.end.error, NothingToSay)
    assert not heard.chunks


def test_the_shortest_pause_is_a_frame_and_pauses_add_up() -> None:
    family = ServedFamily(qwen3(), guards=False)
    heard = spoken(family, Text(ONE), Pause(0.001), Text(TWO))
    assert heard.arrays["silent"].sum() == 1
    heard = spoken(family, Text(ONE), *[Pause(0.16)] * 20)
    assert heard.arrays["silent"].sum() == 40


def test_a_family_with_pauses_of_its_own_keeps_them() -> None:
    served = ServedFamily(vesper(), guards=False)
    assert not served.silences
    assert served.spec == vesper().spec


def test_delayed_frames_behind_what_was_said_are_a_part_of_its_pause() -> None:
    family = orpheus()
    plain = _silent(family)
    family.spec = replace(family.spec, delay_frames=3)
    delayed = _silent(family)
    assert [one - other for one, other in zip(plain, delayed, strict=True)] == [0, 3]


def _silent(family: Family) -> list[int]:
    """Frames of a pause in front of a text, and of one within it."""
    prepared = ServedFamily(family, guards=False).prepare(request(family))
    pieces: list[Piece] = [Pause(0.5), Text(ONE), Pause(1.0), Text(TWO)]
    return [u.frames for u in prepared.read(pieces, final=True) if isinstance(u, Silence)]
