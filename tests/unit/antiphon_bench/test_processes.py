"""Processes behind an address."""

from __future__ import annotations

import pytest

from antiphon_bench.processes import NotHere, stack_at


def test_an_address_where_nobody_listens_has_no_stack() -> None:
    with pytest.raises(NotHere):
        stack_at("http://127.0.0.1:1")
