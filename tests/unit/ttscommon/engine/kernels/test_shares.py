"""Work that several threads share."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waits import TIMEOUT_S
from ttscommon.engine.kernels import shares
from ttscommon.engine.kernels.shares import in_shares


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    """One helper, whatever machine this is."""
    with ThreadPoolExecutor(1) as found:
        monkeypatch.setattr(shares, "_helpers", lambda: (found, 1))
        yield found


@given(st.integers(0, 300), st.integers(1, 8))
def test_each_part_is_worked_once_and_begins_at_a_grain(size: int, grain: int) -> None:
    done: list[tuple[int, int]] = []
    in_shares(size, grain, lambda first, last: done.append((first, last)))
    done.sort()
    assert [at for part in done for at in range(*part)] == list(range(size))
    assert all(first % grain == 0 for first, _ in done)


def test_threads_work_side_by_side(pool: ThreadPoolExecutor) -> None:
    together = threading.Barrier(2, timeout=TIMEOUT_S)
    parts = threading.Semaphore(2)

    def work(first: int, last: int) -> None:
        if parts.acquire(blocking=False):
            together.wait()

    in_shares(100, 1, work)
    assert together.n_waiting == 0


def test_a_helper_that_is_held_up_holds_nothing_up(pool: ThreadPoolExecutor) -> None:
    held, done = threading.Event(), list[int]()
    pool.submit(held.wait, TIMEOUT_S)
    in_shares(50, 1, lambda first, last: done.extend(range(first, last)))
    assert sorted(done) == list(range(50))
    held.set()


def test_what_goes_wrong_with_a_helper_reaches_the_caller(pool: ThreadPoolExecutor) -> None:
    mine, failed = threading.get_ident(), threading.Event()

    def work(first: int, last: int) -> None:
        if threading.get_ident() == mine:
            failed.wait(TIMEOUT_S)
            return
        failed.set()
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        in_shares(50, 1, work)


def test_one_processor_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "_helpers", lambda: (None, 0))
    done: list[tuple[int, int]] = []
    in_shares(50, 4, lambda first, last: done.append((first, last)))
    assert done == [(0, 50)]
