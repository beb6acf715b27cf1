"""What every model family owes the engine: a request's frames are a function of the request.

Add a family to FAMILIES and it is held to the same, in step and a step behind: resumed at any
frame, evicted at any frame, batched with any others, its prompts cut, fed its text in pieces, it
says what the undisturbed run says.

The promise has two strengths (docs/decisions/engine-interface.md). Where a family is `exact`, that
is the same bits. On a device, products depend on the batch: what was heard is never contradicted,
and what follows is whatever the device computes, whole and valid.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count

import numpy as np
import pytest

from talker.engine.draft_lengths import DraftLengths
from talker.engine.engine import Engine
from talker.engine.scheduler import StepLimits
from talker.engine.stream import Event
from tests.late import Late
from tests.unit.ttsfamilies.chatterbox.tiny import tiny as chatterbox
from tests.unit.ttsfamilies.cosyvoice.tiny import tiny as cosyvoice
from tests.unit.ttsfamilies.csm.tiny import tiny as csm
from tests.unit.ttsfamilies.fish_s2.tiny import tiny as fish_s2
from tests.unit.ttsfamilies.glm_voice.tiny import tiny as glm_voice
from tests.unit.ttsfamilies.higgs_audio.tiny import tiny as higgs_audio
from tests.unit.ttsfamilies.kokoro.tiny import tiny as kokoro
from tests.unit.ttsfamilies.kyutai_tts.tiny import tiny as kyutai_tts
from tests.unit.ttsfamilies.orpheus.tiny import tiny as orpheus
from tests.unit.ttsfamilies.piper.tiny import tiny as piper
from tests.unit.ttsfamilies.pocket_tts.tiny import tiny as pocket_tts
from tests.unit.ttsfamilies.qwen3_omni.tiny import tiny as qwen3_omni
from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from tests.unit.ttsfamilies.runaways import Forgetful, guarded
from tests.unit.ttsfamilies.step_audio2.tiny import tiny as step_audio2
from tests.unit.ttsfamilies.tacotron2.tiny import tiny as tacotron2
from tests.unit.ttsfamilies.tiny_vesper import RATE_HZ, SILENCE
from tests.unit.ttsfamilies.tiny_vesper import tiny as vesper
from tests.unit.ttsfamilies.toy_guided import Guided
from tests.unit.ttsfamilies.toy_segments import Toy, at_once
from tests.unit.ttsfamilies.voxcpm2.tiny import tiny as voxcpm2
from tests.unit.ttsfamilies.zonos.tiny import tiny as zonos
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import AntiphonError, NothingToSay
from ttscommon.wire.fields import Arrays, concatenate, cut, rows
from ttscommon.wire.messages import SpeechRequest, WordTime
from ttscommon.wire.pieces import Boundary, Pause, Piece, Text
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.runners.torch_runner import TorchRunner
from ttsfamilies.base.talker.base import Family, Prepared
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.base.talker.streams import CutShort, Taken
from ttsfamilies.fake.talker import FakeModel, Manner, StepCurve
from ttsfamilies.orpheus.family import Orpheus

BLOCKS = 96


def fake(**manner: object) -> FakeModel:
    return FakeModel("m", StepCurve(), lambda _: None, Manner(**manner))  # type: ignore[arg-type]


def on_a_device(make: Callable[[], TalkerModel]) -> TalkerModel:
    """Through the runner of a device, which computes as late as it may."""
    family = make()
    family.compute_on(Late())
    return family


FAMILIES: dict[str, Callable[[], Family]] = {
    "vesper": vesper,
    "fake": fake,
    "fake with a cache": partial(fake, cached=True, sequence_frames=40),
    "fake with 7 steps a frame": partial(fake, cached=True, steps_per_frame=7),
    "fake with 1 to 4 frames a step": partial(
        fake, cached=True, frames_per_step=4, sequence_frames=50
    ),
    "fake with float frames": partial(fake, float_frames=True),
    "fake with two branches": partial(fake, cached=True, sequence_frames=40, branches=2),
    "fake without preset voices": partial(fake, voices=False),
    "fake that loses its text": partial(guarded, Forgetful),
    "qwen3-tts": tiny,
    "qwen3-omni": qwen3_omni,
    "orpheus": orpheus,
    "csm": partial(csm, 6),
    "kokoro": kokoro,
    "piper": piper,
    "toy with guidance": Guided,
    "chatterbox": chatterbox,
    "chatterbox on a grid": partial(chatterbox, "turbo", whole=False),
    "toy whose prompt gives windows": Toy,
    "toy whose prompt gives all frames": at_once,
    "pocket-tts": partial(pocket_tts, 12),
    "higgs-audio": partial(higgs_audio, 8),
    "fish-s2": partial(fish_s2, 6),
    "zonos": partial(zonos, 4),
    "cosyvoice": cosyvoice,
    "kyutai-tts": kyutai_tts,
    "voxcpm2": partial(voxcpm2, 7),
    "tacotron2": tacotron2,
    "glm-voice": glm_voice,
    "step-audio2": step_audio2,
}
# The same as they compute on a device.
FAMILIES |= {
    f"{name} on a device": partial(on_a_device, FAMILIES[name])  # type: ignore[arg-type]
    for name in (
        *("vesper", "qwen3-tts", "qwen3-omni", "orpheus", "csm", "piper", "toy with guidance"),
        *("toy whose prompt gives windows", "pocket-tts", "higgs-audio", "fish-s2", "zonos"),
        *("cosyvoice", "kyutai-tts", "voxcpm2", "tacotron2", "glm-voice", "step-audio2"),
    )
}
TEXT = "One small step, she said. And then one more! The end."


@dataclass
class Heard:
    """A stream's output."""

    chunks: list[Arrays] = field(default_factory=list)
    words: list[WordTime] = field(default_factory=list)
    end: Event | None = None
    cut_short: CutShort | None = None

    @property
    def arrays(self) -> Arrays:
        return concatenate(self.chunks)


class InTurn(DraftLengths):
    """Every width in turn, whatever pays."""

    def choose(self, streams: int, rounds: int = 1) -> int:
        self._steps[0, 0] += 1
        return self.choices[self._steps[0, 0] * 7 % 11 % len(self.choices)]


class Bench:
    """An engine stepped by hand, which drafts in every width that its family has."""

    def __init__(
        self,
        family: Family,
        depth: int = 0,
        *,
        sizes: ChunkSizes = ChunkSizes(2, 25),  # noqa: B008
        blocks: int = BLOCKS,
        slots: int = 16,
        limits: StepLimits = StepLimits(),  # noqa: B008
    ) -> None:
        self.engine = Engine(
            family,
            blocks=blocks,
            slots=slots,
            metrics=Metrics(),
            sizes=sizes,
            depth=depth,
            limits=limits,
            draft_lengths=InTurn,
            clock=partial(next, count(step=1e-6)),
        )
        self.engine.listen(self._listen)
        self.heard: dict[str, Heard] = {}
        self.prepared: dict[str, Prepared] = {}

    def _listen(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            heard = self.heard[key]
            if isinstance(event, Taken):
                heard.chunks.append(event.frames)
                heard.words.extend(event.words)
                self.engine.acknowledge(key)
            elif isinstance(event, CutShort):
                heard.cut_short = event
            else:
                assert heard.end is None, "exactly one end"
                heard.end = event

    def open(self, request: SpeechRequest, restored: Arrays | None = None) -> Heard:
        heard = self.heard[request.request_id] = Heard()
        prepared = self.engine.family.prepare(request)
        self.prepared[request.request_id] = prepared
        final = request.text_final
        try:
            units = list(prepared.read([Text(request.text)], final=final))
        except AntiphonError as error:
            heard.end = Failed(error)
            return heard
        self.engine.open(prepared, restored, units, final=final)
        return heard

    def feed(self, name: str, *pieces: Piece, final: bool = False) -> None:
        units = list(self.prepared[name].read(pieces, final=final))
        self.engine.feed(name, units, final=final)

    def run(self) -> None:
        for _ in range(5000):
            if all(h.end for h in self.heard.values()):
                break
            self.engine.step()
        else:
            raise AssertionError("a stream did not end")
        if not self.engine.idle:
            self.engine.step()
        assert self.engine.idle


def request(name: str = "r", text: str = TEXT, **changes: object) -> SpeechRequest:
    changes = {"seed": 7, **changes}
    return SpeechRequest(name, "m", "slt", text, **changes)  # type: ignore[arg-type]


# Those that differ most; `make test-all` takes every family. tests/parity/test_families.py says for
# families of which a reference exists that company changes nothing, test_device_runner.py that the
# default voice on a device says what it says without, and toys are on a device here too.
QUICK = (
    *("vesper", "csm"),
    *(each for each in FAMILIES if each.startswith(("fake", "toy"))),
)


@pytest.fixture(
    params=[
        pytest.param(each, marks=() if each in QUICK else pytest.mark.slow)
        for each in sorted(FAMILIES)
    ]
)
def family(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]()


@pytest.fixture(params=[0, 1], ids=["in step", "a step behind"])
def depth(request: pytest.FixtureRequest) -> int:
    if "family" in request.fixturenames:
        family = request.getfixturevalue("family")
        if request.param < family.depth:
            pytest.skip("a device is always a step behind")
        name = request.getfixturevalue("name")
        if request.param and f"{name} on a device" in (QUICK if name in QUICK else FAMILIES):
            pytest.skip("its device is a step behind")
    return int(request.param)


@cache
def alone(name: str, text: str = TEXT, seed: int = 7) -> Heard:
    """What a family of that name says alone, in step: once for all tests of this module."""
    bench = Bench(FAMILIES[name]())
    heard = bench.open(request(text=text, seed=seed))
    bench.run()
    assert isinstance(heard.end, Finished), heard.end
    return heard


@pytest.fixture
def name(request: pytest.FixtureRequest, family: Family) -> str:
    """The family's own, in FAMILIES."""
    del family
    return str(request.node.callspec.params["family"])


@pytest.fixture
def undisturbed(name: str) -> Heard:
    """Alone, in step."""
    return alone(name)


def bench_positions(family: Family, heard: Heard) -> int:
    """At most so many positions of the cache did the request need, in all its branches."""
    steps = 7 if isinstance(family, Orpheus) else 1
    if isinstance(family, FakeModel):
        steps = family.manner.steps_per_frame
    return family.spec.branches * (rows(heard.arrays) * steps + len(TEXT) + 16)


def same(one: Arrays, other: Arrays) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def agree(family: Family, one: Arrays, other: Arrays, heard: int = 0) -> None:
    """What the family's strength promises of two runs that had their first `heard` frames in
    common: all frames, or those.
    """
    if family.exact:
        same(one, other)
        return
    same(cut(one, 0, heard), cut(other, 0, heard))
    for arrays in (one, other):
        assert rows(arrays) >= heard
        for name, declared in family.spec.logged.items():
            declared.checked(name, arrays[name])


def words_agree(family: Family, one: Sequence[WordTime], other: Sequence[WordTime]) -> None:
    """The same words, and at the same times where frames are the same."""
    if family.exact:
        assert list(one) == list(other)
    assert [word.word for word in one] == [word.word for word in other]


def test_a_step_behind_equals_in_step(family: Family, undisturbed: Heard) -> None:
    bench = Bench(family, depth=1)
    heard = bench.open(request())
    bench.run()
    agree(family, heard.arrays, undisturbed.arrays)
    words_agree(family, heard.words, undisturbed.words)


def test_frames_are_what_the_family_declares(family: Family, undisturbed: Heard) -> None:
    logged = family.spec.logged
    assert undisturbed.arrays.keys() == logged.keys()
    for name, declared in logged.items():
        declared.checked(name, undisturbed.arrays[name])
        assert undisturbed.arrays[name].dtype == np.dtype(declared.dtype)


def test_resumed_at_any_frame_equals_undisturbed(
    family: Family, depth: int, undisturbed: Heard
) -> None:
    whole = undisturbed.arrays
    frames = rows(whole)
    for at in {1, frames // 2, frames - 1, frames}:
        bench = Bench(family, depth)
        heard = bench.open(request(), cut(whole, 0, at))
        bench.run()
        assert isinstance(heard.end, Finished)
        assert bool(heard.chunks) == (at < frames), "behind the last frame it only ends"
        agree(family, concatenate([cut(whole, 0, at), *heard.chunks]), whole, at)
        left = undisturbed.words[len(undisturbed.words) - len(heard.words) :]
        words_agree(family, heard.words, left)


@pytest.mark.parametrize(
    "name", ["toy whose prompt gives windows on a device", "piper on a device"]
)
def test_three_that_begin_in_one_launch_are_padded_to_four(name: str) -> None:
    bench = Bench(FAMILIES[name](), 1)
    heard = [bench.open(request(f"r{i}")) for i in range(3)]
    bench.run()
    for one in heard:
        assert isinstance(one.end, Finished)
        agree(bench.engine.family, one.arrays, alone(name).arrays)


def test_company_and_chunking_change_nothing(
    family: Family, depth: int, undisturbed: Heard
) -> None:
    bench = Bench(family, depth, sizes=ChunkSizes(1, 7))
    heard = bench.open(request())
    for i in range(3):
        for _ in range(6 * i):
            bench.engine.step()
        text = "Somebody else talks at the same time. " * (i + 1)
        bench.open(request(f"other{i}", text, seed=100 + i))
    bench.run()
    agree(family, heard.arrays, undisturbed.arrays)
    words_agree(family, heard.words, undisturbed.words)


def test_pressure_on_the_cache_changes_nothing(
    family: Family, name: str, depth: int, undisturbed: Heard
) -> None:
    """Three streams in a cache that holds two: most of the time one has given way."""
    if not family.spec.caches:
        pytest.skip("a family without a cache")
    texts = [TEXT[i:] for i in range(2)]
    expected = [alone(name, text, 50 + i) for i, text in enumerate(texts)]
    longest = max(bench_positions(family, heard) for heard in (undisturbed, *expected))
    bench = Bench(family, depth, blocks=2 * -(-longest // 16))
    heard = bench.open(request())
    others = [bench.open(request(f"other{i}", text, seed=50 + i)) for i, text in enumerate(texts)]
    bench.run()
    agree(family, heard.arrays, undisturbed.arrays)
    for other, whole in zip(others, expected, strict=True):
        agree(family, other.arrays, whole.arrays)


def test_cut_prompts_change_nothing(family: Family, depth: int, undisturbed: Heard) -> None:
    whole = undisturbed.arrays
    bench = Bench(family, depth, limits=StepLimits(positions=5))
    heard = bench.open(request())
    successor = bench.open(request("s"), cut(whole, 0, rows(whole) // 2))
    bench.run()
    agree(family, heard.arrays, whole)
    half = rows(whole) // 2
    agree(family, concatenate([cut(whole, 0, half), successor.arrays]), whole, half)


def test_eviction_at_any_frame_changes_nothing(
    family: Family, depth: int, undisturbed: Heard
) -> None:
    bench = Bench(family, depth)
    heard = bench.open(request())
    for step in range(5000):
        if heard.end is not None:
            break
        bench.engine.step()
        if step % 11 == 5:
            for stream in bench.engine._slots:
                stream.evict()
    agree(family, heard.arrays, undisturbed.arrays)


def test_text_in_pieces_gives_the_same(family: Family, depth: int, undisturbed: Heard) -> None:
    bench = Bench(family, depth)
    heard = bench.open(request(text="", text_final=False))
    for i in range(0, len(TEXT), 3):
        bench.feed("r", Text(TEXT[i : i + 3]))
        bench.engine.step()
    bench.feed("r", final=True)
    bench.run()
    agree(family, heard.arrays, undisturbed.arrays)


def test_restored_before_its_text_is_here_it_waits_and_goes_on(
    family: Family, depth: int, undisturbed: Heard
) -> None:
    whole = undisturbed.arrays
    at = rows(whole) // 2
    bench = Bench(family, depth)
    heard = bench.open(request(text="", text_final=False), cut(whole, 0, at))
    bench.feed("r", Text(TEXT), final=True)
    bench.run()
    agree(family, concatenate([cut(whole, 0, at), heard.arrays]), whole, at)


def test_a_model_with_speeds_of_its_own_lists_speed(family: Family) -> None:
    slowest, fastest = family.spec.speeds
    assert ("speed" in family.spec.accepts) == (slowest < fastest)


def test_a_request_without_words_fails_typed_and_alone(family: Family) -> None:
    bench = Bench(family)
    silent, spoken = bench.open(request("s", "... !")), bench.open(request("t"))
    bench.run()
    assert isinstance(silent.end, Failed)
    assert isinstance(silent.end.error, NothingToSay)
    assert isinstance(spoken.end, Finished)


def test_words_come_in_order_within_the_audio(family: Family, undisturbed: Heard) -> None:
    words = undisturbed.words
    if not words:
        return  # a family without timestamps
    assert [w.word for w in words] == TEXT.split()
    times = [t for w in words for t in (w.start_s, w.end_s)]
    assert times == sorted(times)
    assert times[-1] <= rows(undisturbed.arrays) / family.spec.frame_rate_hz


def test_a_poisoned_block_fails_its_own_stream_and_nobody_elses(depth: int) -> None:
    family = vesper()
    bench = Bench(family, depth)
    runner = bench.engine._runner
    assert isinstance(runner, TorchRunner)
    by_itself = Bench(family)
    expected = by_itself.open(request("fine", seed=3))
    by_itself.run()
    sick, fine = bench.open(request("sick")), bench.open(request("fine", seed=3))
    for _ in range(3):
        bench.engine.step()
    cache = runner._caches["backbone"]
    first = bench.engine._room.table("sick")[0] * 16
    cache.values[:, first : first + 16, : cache.width] = math.nan
    bench.run()
    assert isinstance(sick.end, Failed)
    assert isinstance(sick.end.error, FloatingPointError)
    same(fine.arrays, expected.arrays)


def spoken(*pieces: Piece, depth: int = 0) -> Heard:
    bench = Bench(vesper(), depth)
    heard = bench.open(request(text="", text_final=False))
    bench.feed("r", *pieces, final=True)
    bench.run()
    return heard


def test_a_pause_lasts_as_long_as_it_was_asked_to(depth: int) -> None:
    plain = spoken(Text("One two."), Boundary(), Text("Three four."), depth=depth)
    paused = spoken(Text("One two."), Pause(0.4), Text("Three four."), depth=depth)
    assert rows(paused.arrays) - rows(plain.arrays) != 0
    (first,) = [word for word in paused.words if word.word == "two."]
    (second,) = [word for word in paused.words if word.word == "Three"]
    silence = spoken(Text("One two."), depth=depth)
    start, frames = rows(silence.arrays), round(0.4 * RATE_HZ)
    assert start / RATE_HZ >= first.end_s
    quiet = paused.arrays["codes"][start : start + frames]
    assert quiet.tolist() == [list(SILENCE)] * frames
    assert second.start_s >= (start + frames) / RATE_HZ
