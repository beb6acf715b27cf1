"""Ranges of bytes, as RFC 9110 has them."""

from __future__ import annotations

import os

import pytest

from gateway.protocols.shared.response import Spool, range_of


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


@pytest.mark.parametrize("sizes", [[], [1], [64, 1], [60, 60, 600_000], [0, 3, 0]])
async def test_what_comes_out_is_what_went_in(sizes: list[int]) -> None:
    data = [os.urandom(size) for size in sizes]
    with Spool(64) as spool:
        for part in data:
            await spool.add(part)
        assert len(spool) == sum(sizes)
        assert spool.on_disk == (sum(sizes) > 64)
        parts = [part async for part in spool.parts()]
    assert b"".join(parts) == b"".join(data)
    assert max(map(len, parts), default=0) <= 1 << 18


async def test_what_is_large_lies_in_a_file_without_a_name_and_goes_with_the_context() -> None:
    with Spool(64) as spool:
        await spool.add(b"x" * 65)
        descriptor = spool._file.fileno()
        assert os.fstat(descriptor).st_nlink == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
