"""`antiphon up --engine null` and `antiphon bench capacity` on it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.stack import LocalStack
from antiphon_bench.capacity import capacity
from antiphon_bench.config import RunConfig, Target
from antiphon_bench.processes import stack_at


@pytest.mark.parametrize("stack", [{"engine": "null"}], indirect=True)
async def test_null_stages_speak_and_the_processes_of_its_stack_are_found(
    stack: LocalStack, tmp_path: Path
) -> None:
    children = {child.pid for child in stack.children.values()}
    found = {one.process.pid: one.name for one in stack_at(stack.url)}
    names = [found[pid] for pid in children if pid is not None]
    assert sorted(names) == ["broker", "gateway", "null_stages"]
    config = RunConfig(
        target=Target(url=stack.url, protocol="ws"), texts="short",
        warmup_s=0.0, duration_s=4.0, out=tmp_path,
    )  # fmt: skip
    point = (await asyncio.to_thread(capacity, config, [2])).points[0]
    assert point.summary.ok == point.summary.offered > 0
    assert {"broker", "gateway", "null_stages", "generator"} <= point.cores.keys()
