"""Bodies that are sent when they are whole."""

from __future__ import annotations

import os

import pytest

from gateway.protocols.shared.response import Spool


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
