"""Two ends of a line: order, answers, errors, and an end that goes away."""

import socket
import threading
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from typing import Any

import pytest

from tests.waits import TIMEOUT_S
from ttscommon.engine.apart.line import EngineLine, LineClosed
from ttscommon.wire.errors import UnknownVoice

Ends = tuple[EngineLine, EngineLine]


class Odd(Exception):
    """One that no other process can read."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def refuse(voice: str) -> None:
    raise UnknownVoice(f"no voice '{voice}'", param="voice")


def odd() -> None:
    raise Odd("a", "b")


@pytest.fixture
def said() -> list[Any]:
    return []


@pytest.fixture
def ends(said: list[Any]) -> Iterator[Ends]:
    here, there = Pipe()
    done = threading.Event()
    handlers: dict[str, Callable[..., Any]] = {
        "say": said.append,
        "double": lambda value: 2 * value,
        "refuse": refuse,
        "odd": odd,
        "wait": lambda: done.wait(TIMEOUT_S),
    }
    near, far = EngineLine(here, {}), EngineLine(there, handlers)
    near.start()
    far.start()
    yield near, far
    done.set()
    near.close()
    far.close()


def test_what_is_cast_comes_in_order_and_before_what_is_called_later(
    ends: Ends, said: list[Any]
) -> None:
    for number in range(1000):
        ends[0].cast("say", number)
    assert ends[0].call("double", 21) == 42
    assert said == list(range(1000))


def test_an_error_is_raised_where_it_was_asked_for(ends: Ends) -> None:
    with pytest.raises(UnknownVoice, match="no voice 'x'") as raised:
        ends[0].call("refuse", "x")
    assert raised.value.param == "voice"


def test_an_error_that_does_not_travel_is_told_in_words_and_where_it_came_from(ends: Ends) -> None:
    with pytest.raises(RuntimeError, match="Odd: a b") as raised:
        ends[0].call("odd")
    assert "in odd" in raised.value.__notes__[0]


def test_an_end_that_goes_away_fails_who_waits_and_who_asks_later(ends: Ends) -> None:
    near, far = ends
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            near.call("wait")
        except LineClosed as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    with socket.socket(fileno=far._connection.fileno()) as end:
        end.shutdown(socket.SHUT_RDWR)
        end.detach()
    asking.join(TIMEOUT_S)
    assert len(failed) == 1
    with pytest.raises(LineClosed):
        near.call("double", 1)


def test_what_is_cast_until_a_later_moment_travels_together() -> None:
    here, there = Pipe()
    flushes: list[Callable[[], None]] = []
    near = EngineLine(here, {}, soon=flushes.append)
    for number in range(3):
        near.cast("say", number)
    assert not there.poll()
    assert len(flushes) == 1
    flushes[0]()
    said: list[Any] = []
    far = EngineLine(there, {"say": said.append, "all": lambda: list(said)})
    far.start()
    near.start()
    near.cast("say", 3)
    assert near.call("all") == [0, 1, 2, 3]
    near.close()
    far.close()


def test_an_end_that_closed_reads_nothing_of_who_has_its_descriptor_next() -> None:
    here, there = Pipe()
    near = EngineLine(here, {})
    near.start()
    near.close()
    near._thread.join(TIMEOUT_S)
    assert not near._thread.is_alive()
    assert here.closed
    with pytest.raises(LineClosed):
        near.cast("say", 1)
    there.close()
