"""What both engines stand on: commands, turns, events in one list, and an end for everybody."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ttscommon.engine.runtime import Failed, Finished, Runtime, Stopped
from ttscommon.engine.slots import Slots
from ttscommon.process.metrics import Metrics


@dataclass(eq=False)
class Stream:
    """Counts down, and then it is over."""

    key: str
    left: int
    slot: int = -1
    started_s: float | None = None

    def playback(self, start_s: float) -> None:
        if start_s < 0:
            raise ValueError("before time")
        self.started_s = start_s


class Countdown(Runtime[Stream, int]):
    """Emits each stream's number, a turn at a time."""

    def __init__(self, slots: int = 4, **hooks: Any) -> None:
        super().__init__("countdown", Slots(slots), Metrics(), **hooks)
        self.breaks = False
        self.freed: list[str] = []

    def open(self, key: str, left: int) -> None:
        def make() -> Stream:
            if left < 0:
                raise ValueError("nothing to count")
            return Stream(key, left)

        self._put(lambda: self._admit(key, make))

    def do(self, command: Callable[[], object]) -> bool:
        return self._put(command)

    def _turn(self) -> bool:
        if self.breaks:
            raise MemoryError("broken")
        for stream in self._slots:
            self._emit(stream.key, stream.left)
            stream.left -= 1
            if stream.left < 0:
                self._finish(stream)
        return bool(len(self._slots))

    def _freed(self, stream: Stream) -> None:
        self.freed.append(stream.key)


class Heard(list[list[tuple[str, Any]]]):
    """Lists of events as they came."""

    def __call__(self, events: Sequence[tuple[str, Any]]) -> None:
        self.append(list(events))

    def of(self, key: str) -> list[Any]:
        return [event for events in self for name, event in events if name == key]


def test_a_turns_events_come_in_one_list() -> None:
    engine, heard = Countdown(), Heard()
    engine.listen(heard)
    engine.open("a", 1)
    engine.open("b", 0)
    engine.step()
    engine.step()
    assert heard == [[("a", 1), ("b", 0), ("b", Finished())], [("a", 0), ("a", Finished())]]
    assert engine.idle


def test_what_goes_wrong_with_a_stream_is_its_own_failure() -> None:
    engine, heard = Countdown(slots=2), Heard()
    engine.listen(heard)
    engine.open("nothing", -1)
    engine.open("a", 5)
    engine.open("a", 5)
    engine.open("b", 5)
    engine.open("c", 5)
    engine.step()
    assert "nothing to count" in str(heard.of("nothing")[0].error)
    assert "slot" in str(heard.of("c")[0].error)
    assert [type(event) for event in heard.of("a")] == [Failed, int]
    engine.playback("b", -1.0)
    engine.playback("a", 2.0)
    engine.step()
    assert isinstance(heard.of("b")[-1], Failed)
    assert engine.streams == 1


def test_a_cancelled_stream_says_nothing_more() -> None:
    engine, heard, freed = Countdown(), Heard(), list[bool]()
    engine.listen(heard)
    engine.open("a", 5)
    engine.step()
    for key in ("a", "nobody"):
        engine.cancel(key, lambda: freed.append(engine.idle))
    engine.step()
    assert (freed, heard.of("a"), engine.freed) == ([True, True], [5], ["a"])


def test_a_sink_that_raises_loses_the_streams_of_its_list_only() -> None:
    engine = Countdown()

    def gone(events: Sequence[tuple[str, Any]]) -> None:
        raise RuntimeError("event loop is closed")

    engine.listen(gone)
    engine.open("a", 5)
    engine.step()
    assert engine.idle
    heard = Heard()
    engine.listen(heard)
    engine.open("b", 0)
    engine.step()
    assert heard.of("b") == [0, Finished()]


def test_an_engine_that_dies_says_so_and_fails_every_stream() -> None:
    died = threading.Event()
    engine, heard = Countdown(died=died.set), Heard()
    engine.listen(heard)
    engine.open("a", 10**9)
    engine.open("b", 10**9)
    engine.start()
    engine.do(lambda: setattr(engine, "breaks", True))
    assert died.wait(10)
    assert isinstance(engine.error, MemoryError)
    for key in "ab":
        last = heard.of(key)[-1]
        assert isinstance(last, Failed)
        assert isinstance(last.error, Stopped)
    assert engine.idle
    freed = threading.Event()
    engine.cancel("a", freed.set)
    assert freed.is_set()
    assert not engine.do(lambda: None)


def test_an_engine_that_cannot_let_go_of_a_stream_dies_and_keeps_nobody_waiting() -> None:
    class Unwell(Countdown):
        def _freed(self, stream: Stream) -> None:
            raise MemoryError("broken")

    died, freed = threading.Event(), threading.Event()
    engine = Unwell(died=died.set)
    engine.open("a", 10**9)
    engine.open("b", 10**9)
    engine.cancel("a")
    engine.start()
    assert died.wait(10)
    assert isinstance(engine.error, MemoryError)
    engine.cancel("b", freed.set)
    assert freed.is_set()


def test_a_command_that_comes_too_late_still_ends_in_an_event() -> None:
    died, blocked = threading.Event(), threading.Event()
    engine, heard = Countdown(died=died.set), Heard()
    engine.listen(heard)

    def breaks() -> None:
        assert blocked.wait(10)
        raise MemoryError("broken")

    engine.start()
    engine.do(breaks)
    engine.open("late", 3)
    blocked.set()
    assert died.wait(10)
    assert isinstance(heard.of("late")[-1], Failed)
    assert engine.idle


def test_it_waits_for_a_command_when_there_is_nothing_to_do() -> None:
    beats = threading.Semaphore(0)
    engine = Countdown(beat=beats.release)
    engine.start()
    for _ in range(2):
        assert beats.acquire(timeout=10)
    assert not beats.acquire(blocking=False)
    engine.open("a", 0)
    assert beats.acquire(timeout=10)
    engine.stop()
    assert engine.idle


def test_a_caller_that_has_waited_does_not_wait_again() -> None:
    engine = Countdown()
    engine.step()
    assert engine.waits
    began_s = time.monotonic()
    engine.step(wait=False)
    assert time.monotonic() - began_s < engine.wait_s


def test_a_leak_is_found_when_the_last_stream_goes() -> None:
    class Leaking(Countdown):
        @property
        def idle(self) -> bool:
            return False

    engine = Leaking()
    engine.open("a", 0)
    with pytest.raises(AssertionError, match="still held"):
        engine.step()
