"""Processes behind an address."""

import pytest

from antiphon_bench.processes import Account, NotHere, purpose, shares, stack_at, table


def test_an_address_where_nobody_listens_has_no_stack() -> None:
    with pytest.raises(NotHere):
        stack_at("http://127.0.0.1:1")


STEP = "run (threading.py);turn (talker/engine/engine.py);step (ttsfamilies/vesper/drafts.py)"
COMMIT = (
    "run (asyncio/runners.py);commit (ttscommon/bus/logs/commits.py);publish (/lib/nats/aio.py)"
)


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (STEP, "step"),
        ("step (ttsfamilies/vesper/drafts.py);forward (nn/packed.py)", "products"),
        ("render (ttsfamilies/vesper/codec/codec.py)", "codec"),
        (COMMIT, "bus"),
        ("commit (ttscommon/bus/logs/commits.py)", "commits"),
        ("main (somewhere.py)", "other"),
    ],
)
def test_a_sample_counts_for_its_innermost_known_function(stack: str, expected: str) -> None:
    assert purpose(stack) == expected


def test_shares_sum_to_one() -> None:
    assert shares([f"{STEP} 3", f"{COMMIT} 1"]) == {"step": 0.75, "bus": 0.25}


def test_a_process_is_followed_by_its_purposes_the_largest_first() -> None:
    purposes = {("talker", "turns"): 2.0, ("talker", "step"): 10.0}
    alone = Account(1, 4.9, {"gateway": 5.0, "talker": 12.0}, purposes)
    rows = [line.split()[0] for line in table([alone]).splitlines()]
    assert rows == ["1", "sound,", "all", "gateway", "talker", "step", "turns"]
    assert table([alone]).splitlines()[2].split()[-1] == "17.00"
