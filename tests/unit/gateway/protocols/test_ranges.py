"""Ranges of bytes, as RFC 9110 has them."""

from __future__ import annotations

import pytest

from gateway.protocols.shared.ranges import range_of


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, None),
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=90-", (90, 100)),
        ("bytes=90-400", (90, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-400", (0, 100)),
        ("bytes=100-", (100, 100)),
        ("bytes=9-3", None),
        ("bytes=-0", (100, 100)),
        ("bytes=00-007", (0, 8)),
        (" bytes=1-2 ", (1, 3)),
        ("bytes=1 - 2", None),
        ("bytes=--5", None),
        ("bytes=1-2-3", None),
        ("bytes=0x1-2", None),
        ("bytes=+1-2", None),
        ("bytes=1e3-", None),
        ("bytes=\u0661-", None),
        ("bytes=999999999999999999-", (999_999_999_999_999_999, 100)),
        ("bytes=" + "9" * 5000 + "-", None),
        ("bytes=" + "0-1," * 5000, None),
        ("", None),
        ("bytes=-", None),
        ("bytes=0-1,5-6", None),
        ("samples=0-1", None),
    ],
)
def test_a_range_is_what_the_client_lacks(
    header: str | None, wanted: tuple[int, int] | None
) -> None:
    assert range_of(header, 100) == wanted
