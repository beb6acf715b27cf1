"""Threads that compute take long turns, where the kernel lets them."""

from __future__ import annotations

import threading

from ttscommon.engine.yielding import TURN_NS, Turns, step_aside, turns_here


def test_a_thread_that_steps_aside_takes_long_turns_and_changes_nothing_else() -> None:
    seen: list[Turns | None] = []

    def look() -> None:
        before = turns_here()
        agreed = step_aside()
        seen.extend([before, turns_here()] if agreed else [before, before])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    before, after = seen
    if before is None or after is None:
        assert before is after
        return
    assert before._replace(turn_ns=0) == after._replace(turn_ns=0)
    # Older kernels have no turns of a thread's own.
    assert after.turn_ns == (TURN_NS if before.turn_ns else 0)
