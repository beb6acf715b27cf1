"""Processes behind an address."""

import pytest

from antiphon_bench.processes import Account, NotHere, stack_at, table


def test_an_address_where_nobody_listens_has_no_stack() -> None:
    with pytest.raises(NotHere):
        stack_at("http://127.0.0.1:1")


def test_a_load_is_a_column_and_a_process_a_row() -> None:
    rows = table([Account(1, 4.9, {"gateway": 5.0, "talker": 12.0})]).splitlines()
    assert [row.split()[0] for row in rows] == ["1", "sound,", "all", "gateway", "talker"]
    assert rows[2].split()[-1] == "17.00"
