"""Segments: frames that come from a prompt, in windows, in any company, wherever one goes on."""

from collections.abc import Sequence
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from talker.engine.scheduler import StepLimits
from tests.random_cases import examples
from tests.unit.ttsfamilies.test_conformance import Bench, Heard, on_a_device, request, same
from tests.unit.ttsfamilies.toy_segments import PASSES, WHOLE, WINDOWS, Toy
from ttscommon.engine.runtime import Finished
from ttscommon.wire.fields import concatenate, cut, rows
from ttsfamilies.base.runners.torch_runner import TorchRunner
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.base.talker.segments import Grid
from ttsfamilies.base.talker.streams import Plan, Results, Row

TEXT = "One small step, said the talker. And then another one, for good measure!"
LONG = " ".join(["word"] * 90) + "."
SHORT = "Ah."


class Watched(Bench):
    """A bench that keeps the launches of its engine: who was in each, with what plan."""

    def __init__(self, toy: Toy, **more: object) -> None:
        super().__init__(toy, **more)  # type: ignore[arg-type]
        self.launches: list[list[tuple[str, Plan]]] = []
        self.engine._clock = lambda: 0.0  # nobody is about to run dry
        runner = self.engine._runner
        assert isinstance(runner, TorchRunner)
        self._plain = runner.launch
        runner.launch = self._watched  # type: ignore[method-assign]

    def _watched(self, rows: Sequence[Row]) -> Results:
        names = {stream.slot: stream.key for stream in self.engine._slots}
        self.launches.append([(names[row.slot], row.plan) for row in rows])
        return self._plain(rows)

    def until_sound(self, heard: Heard) -> list[list[tuple[str, Plan]]]:
        """Step until it has its first chunk; the launches that this took."""
        before = len(self.launches)
        while not heard.chunks:
            assert heard.end is None, heard.end
            self.engine.step()
        return self.launches[before:]


@cache
def whole(text: str = TEXT, seed: int = 7, frames: tuple[int, ...] = WINDOWS.frames) -> Heard:
    bench = Bench(Toy(Grid(frames)))
    heard = bench.open(request(text=text, seed=seed))
    bench.run()
    assert isinstance(heard.end, Finished)
    return heard


def test_windows_lie_on_a_grid_that_begins_with_the_segment() -> None:
    grid = Grid((3, 5, 8))
    assert [grid.window(frame) for frame in (0, 2, 3, 7, 8, 15, 16, 40)] == [
        *((0, 3), (0, 3), (3, 5), (3, 5), (8, 8), (8, 8), (16, 8), (40, 8))
    ]


def test_a_prompt_is_cut_between_passes_only() -> None:
    plan = Plan(0, 30, grain=10)
    assert plan.cut(25) == (Plan(0, 20, partial=True, grain=10), Plan(20, 10, grain=10))
    assert plan.cut(3) == (Plan(0, 10, partial=True, grain=10), Plan(10, 20, grain=10))
    assert plan.cut(30) == (plan, None)
    with pytest.raises(ValueError, match="whole grains"):
        Plan(0, 25, grain=10)


def test_a_window_is_neither_cut_nor_drafted() -> None:
    window = Plan(8, 8, decode=True, certain=True)
    assert window.cut(3) == (window, None)
    bench = Watched(Toy())
    bench.open(request(text=TEXT))
    bench.run()
    assert {plan.count for launch in bench.launches for _, plan in launch if plan.decode} == {
        *(3, 5, 8)
    }


@examples(8)
@given(
    st.integers(1, 60), st.integers(4, 200), st.sets(st.integers(0, 40), max_size=6), st.booleans()
)
def test_resumed_cut_and_evicted_anywhere_it_says_the_same(
    at: int, positions: int, evicted: set[int], late: bool
) -> None:
    undisturbed = whole().arrays
    at = min(at, rows(undisturbed) - 1)
    bench = Bench(Toy(), int(late), limits=StepLimits(positions=positions))
    heard = bench.open(request(text=TEXT), cut(undisturbed, 0, at))
    bench.open(request("other", LONG, seed=1))
    for step in range(60):
        bench.engine.step()
        if step in evicted:
            for stream in bench.engine._slots:
                stream.evict()
    bench.run()
    same(concatenate([cut(undisturbed, 0, at), heard.arrays]), undisturbed)


def test_words_resumed_at_any_frame_come_once_and_at_the_same_times() -> None:
    """A predecessor's chunk carries the words that its own frames tell of, and a successor the
    others, wherever the one was cut.
    """
    undisturbed = whole()
    for at in range(1, rows(undisturbed.arrays), 11):
        bench = Bench(Toy(), sizes=ChunkSizes(at, at, ample=1.0))
        before = bench.open(request(text=TEXT))
        while not before.chunks:
            bench.engine.step()
        assert rows(before.arrays) == at
        bench = Bench(Toy())
        after = bench.open(request(text=TEXT), cut(undisturbed.arrays, 0, at))
        bench.run()
        assert [*before.words, *after.words] == undisturbed.words


@pytest.mark.parametrize("toy", [Toy, partial(Toy, WHOLE)], ids=["windows", "at once"])
def test_chunks_are_of_bounded_size_and_the_same_in_windows_and_with_the_prompt(
    toy: type[Toy],
) -> None:
    sizes = ChunkSizes(2, 10, ample=1.0)
    bench = Bench(toy(), sizes=sizes)
    heard = bench.open(request(text=LONG))
    bench.run()
    assert max(rows(chunk) for chunk in heard.chunks) <= 10
    same(heard.arrays, whole(LONG).arrays)
    assert heard.words == whole(LONG).words


def test_no_step_computes_more_than_its_budget_or_one_pass() -> None:
    bench = Watched(Toy(work=8), limits=StepLimits(positions=128))
    for name in "abc":
        bench.open(request(name, LONG, seed=ord(name)))
    bench.run()
    for launch in bench.launches:
        work = sum(plan.work or plan.count for _, plan in launch)
        assert work <= 128 or len(launch) == 1
    prompts = [plan for launch in bench.launches for _, plan in launch if not plan.decode]
    assert all(plan.count == plan.grain for plan in prompts if plan.grain > 64)
    assert len(prompts) % (3 * PASSES) == 0


def test_a_long_segment_is_never_in_front_of_the_first_sound_of_a_short_one() -> None:
    bench = Watched(Toy(work=8), limits=StepLimits(positions=128))
    bench.open(request("long", LONG))
    bench.engine.step()
    short = bench.open(request("short", SHORT))
    assert all([name for name, _ in ran] == ["short"] for ran in bench.until_sound(short))
    bench.run()


def test_nor_is_that_of_a_stream_that_is_heard_already() -> None:
    bench = Watched(Toy(work=8), limits=StepLimits(positions=128))
    bench.open(request("heard", f"Oh well. {LONG}"))
    bench.engine.step()
    (stream,) = bench.engine._slots
    while stream.model.frames < rows(whole("Oh well.").arrays):
        bench.engine.step()
    late = bench.open(request("late", SHORT))
    ran = [step for launch in bench.until_sound(late) for step in launch]
    assert [name for name, plan in ran if not plan.decode] == ["late"]
    bench.run()


def test_of_those_that_start_the_one_that_has_been_read_goes_on() -> None:
    bench = Watched(Toy(work=8), limits=StepLimits(positions=24))
    first = bench.open(request("first", SHORT))
    bench.engine.step()  # its prompt
    bench.open(request("second", SHORT))
    assert all(name == "first" for ran in bench.until_sound(first) for name, _ in ran)
    bench.run()


def test_on_a_device_segments_that_are_equally_far_are_read_together() -> None:
    toys = on_a_device(Toy), Toy()
    for toy in toys:
        bench = Bench(toy)
        heard = [bench.open(request(name, f"{TEXT} {name}.", seed=7)) for name in "abcd"]
        bench.run()
        alone = whole(f"{TEXT} a.", frames=(8,))
        np.testing.assert_allclose(heard[0].arrays["z"], alone.arrays["z"], atol=1e-5)
    assert max(toys[0].read_rows) == 4  # type: ignore[attr-defined]
    assert set(toys[1].read_rows) == {1}


def test_a_stream_cancelled_in_the_midst_of_its_prompt_leaves_nothing() -> None:
    bench = Bench(Toy(), limits=StepLimits(positions=64))
    heard = bench.open(request(text=LONG))
    bench.engine.step()
    bench.engine.cancel("r")
    bench.engine.step()
    assert bench.engine.idle
    assert not heard.chunks
    after = bench.open(request(text=TEXT))
    bench.run()
    same(after.arrays, whole().arrays)
