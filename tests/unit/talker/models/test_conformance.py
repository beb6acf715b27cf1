"""What every model family owes the engine: a request's frames are a function of the request.

Add a family to FAMILIES and it is held to the same: resumed at any frame, evicted at any frame,
batched with anybody, fed its text in pieces, it says what the undisturbed run says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from talker.engine.chunker import ChunkSizes
from talker.engine.engine import ChunkReady, Engine, Event, Failed, Finished
from talker.engine.kv import PagedCaches
from talker.models.base import Arrays, ModelSpec, TalkerModel, concatenate
from talker.models.cantor import Cantor, SamplingDefaults, backbone_cache
from talker.models.cantor_net import CantorConfig, CantorNet
from talker.models.fake import Curve, FakeModel
from talker.text.frontend import Utterance, Word
from talker.text.symbols import SYMBOLS, Phone
from ttscommon.errors import NothingToSay
from ttscommon.messages import SpeechRequest, WordTime
from ttscommon.metrics import Metrics
from ttscommon.replicas import Voice

BLOCKS = 96


class Letters:
    """A frontend for tests: a letter is a phone."""

    def phones(self, text: str) -> Utterance:
        phones, words = [Phone("pau", -1, False)], []
        for index, word in enumerate(text.split()):
            letters = [c for c in word.lower() if c.isalpha()]
            if not letters:
                continue
            start = len(phones)
            phones += [
                Phone(SYMBOLS[2 + ord(c) % 50], index, i == 0) for i, c in enumerate(letters)
            ]
            words.append(Word(word, start, len(phones)))
        if not words:
            raise NothingToSay("no word")
        return Utterance((*phones, Phone("pau", -1, False)), tuple(words))


def cantor() -> TalkerModel:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = CantorNet(
        CantorConfig(dim=64, layers=2, heads=2, hidden=96, depth_dim=32, depth_hidden=48)
    )
    for parameter in net.parameters():  # wide logits, so that ids follow the input
        parameter.data *= 2.0
    voices = (Voice("slt", "SLT", "en"),)
    spec = ModelSpec("m", "cantor", 16_000, 25.0, voices, {"backbone": backbone_cache(net)})
    return Cantor(spec, net, Letters(), SamplingDefaults(max_frames_per_phone=6))  # type: ignore[arg-type]


def fake() -> TalkerModel:
    return FakeModel("m", Curve(), sleep=lambda _: None)


FAMILIES: dict[str, Callable[[], TalkerModel]] = {"cantor": cantor, "fake": fake}
TEXT = "One small step, said the talker. And then another one, for good measure! The end."


@dataclass
class Heard:
    """A stream's output."""

    chunks: list[Arrays] = field(default_factory=list)
    words: list[WordTime] = field(default_factory=list)
    end: Event | None = None

    @property
    def arrays(self) -> Arrays:
        return concatenate(self.chunks)


class Stage:
    """An engine stepped by hand."""

    def __init__(self, model: TalkerModel, sizes: ChunkSizes = ChunkSizes(2, 25)) -> None:  # noqa: B008
        caches = PagedCaches(model.spec.caches, BLOCKS) if model.spec.caches else None
        self.engine = Engine(model, caches, blocks=BLOCKS, slots=16, metrics=Metrics(), sizes=sizes)
        self.heard: dict[str, Heard] = {}

    def open(self, request: SpeechRequest, restored: Arrays | None = None) -> Heard:
        heard = self.heard[request.request_id] = Heard()

        def listen(event: Event) -> None:
            if isinstance(event, ChunkReady):
                heard.chunks.append(event.arrays)
                heard.words.extend(event.words)
                self.engine.acknowledge(request.request_id)
            else:
                heard.end = event

        self.engine.open(request, restored, listen)
        return heard

    def run(self) -> None:
        for _ in range(5000):
            if all(h.end for h in self.heard.values()):
                assert self.engine.idle
                return
            self.engine.step()
        raise AssertionError("a stream did not end")


def request(name: str = "r", text: str = TEXT, **changes: object) -> SpeechRequest:
    return SpeechRequest(name, "m", "slt", text, seed=7, **changes)  # type: ignore[arg-type]


@pytest.fixture(params=sorted(FAMILIES))
def model(request: pytest.FixtureRequest) -> TalkerModel:
    return FAMILIES[request.param]()


@pytest.fixture
def undisturbed(model: TalkerModel) -> Heard:
    stage = Stage(model)
    heard = stage.open(request())
    stage.run()
    assert isinstance(heard.end, Finished), heard.end
    return heard


def same(one: Arrays, other: Arrays) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_resumed_at_any_frame_equals_undisturbed(model: TalkerModel, undisturbed: Heard) -> None:
    whole = undisturbed.arrays
    frames = len(whole["codes"])
    for at in {1, 2, frames // 3, frames // 2, frames - 1}:
        stage = Stage(model)
        heard = stage.open(request(), {name: array[:at] for name, array in whole.items()})
        stage.run()
        same(concatenate([{n: a[:at] for n, a in whole.items()}, heard.arrays]), whole)
        assert undisturbed.words[len(undisturbed.words) - len(heard.words) :] == heard.words


def test_resumed_after_the_last_frame_only_ends(model: TalkerModel, undisturbed: Heard) -> None:
    stage = Stage(model)
    heard = stage.open(request(), undisturbed.arrays)
    stage.run()
    assert isinstance(heard.end, Finished)
    assert not heard.chunks


def test_company_and_chunking_change_nothing(model: TalkerModel, undisturbed: Heard) -> None:
    stage = Stage(model, ChunkSizes(1, 7))
    heard = stage.open(request())
    for i in range(5):
        for _ in range(3 * i):
            stage.engine.step()
        stage.open(request(f"other{i}", "Somebody else talks at the same time. " * (i + 1)))
    stage.run()
    same(heard.arrays, undisturbed.arrays)
    assert heard.words == undisturbed.words


def test_eviction_at_any_frame_changes_nothing(model: TalkerModel, undisturbed: Heard) -> None:
    stage = Stage(model)
    heard = stage.open(request())
    opened = stage.engine.streams
    for step in range(5000):
        if heard.end is not None:
            break
        stage.engine.step()
        if step % 11 == 5:
            for stream in opened.values():
                stream.model.evict()
    same(heard.arrays, undisturbed.arrays)


def test_text_in_pieces_gives_the_same(model: TalkerModel, undisturbed: Heard) -> None:
    stage = Stage(model)
    heard = stage.open(request(text="", text_final=False))
    for i in range(0, len(TEXT), 3):
        stage.engine.feed("r", TEXT[i : i + 3], final=False)
        stage.engine.step()
    stage.engine.feed("r", "", final=True)
    stage.run()
    same(heard.arrays, undisturbed.arrays)


def test_restored_before_its_text_is_here_it_waits_and_goes_on(
    model: TalkerModel, undisturbed: Heard
) -> None:
    whole = undisturbed.arrays
    at = len(whole["codes"]) // 2
    stage = Stage(model)
    heard = stage.open(
        request(text="", text_final=False), {name: array[:at] for name, array in whole.items()}
    )
    stage.engine.feed("r", TEXT, final=True)
    stage.run()
    same(concatenate([{n: a[:at] for n, a in whole.items()}, heard.arrays]), whole)


def test_a_request_without_words_fails_typed_and_alone(model: TalkerModel) -> None:
    stage = Stage(model)
    silent, spoken = stage.open(request("s", "... !")), stage.open(request("t"))
    stage.run()
    assert isinstance(silent.end, Failed)
    assert isinstance(silent.end.error, NothingToSay)
    assert isinstance(spoken.end, Finished)


def test_words_come_in_order_within_the_audio(undisturbed: Heard) -> None:
    words = undisturbed.words
    if not words:
        return  # a family without timestamps
    assert [w.word for w in words] == TEXT.split()
    times = [t for w in words for t in (w.start_s, w.end_s)]
    assert times == sorted(times)
    assert times[-1] <= len(undisturbed.arrays["codes"]) / 25.0
