"""Fixtures for everybody: a real broker, and the whole stack, each of a test's own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from antiphon.stack import LocalStack, StackConfig

# Kernels run in Triton's interpreter, which has to be chosen before any test imports Triton.
os.environ.setdefault("TRITON_INTERPRET", "1")

# A machine that is busy with something else fails no test.
settings.register_profile("antiphon", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("antiphon")


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalStack]:
    """A broker alone on a free port: `broker.bus` are its BusSettings.

    `broker.children["broker"].kill()` kills it; it comes back at the same port.
    """
    config = StackConfig(gateways=0, talkers=0, vocoders=0, store=tmp_path / "store")
    async with LocalStack(config) as running:
        yield running


@pytest.fixture
async def stack(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalStack]:
    """Broker, gateway, talker, vocoder on free ports: `stack.url`, `stack.bus`, `stack.children`.

    Parametrise indirectly with StackConfig's fields: `{"engine": "fake", "talkers": 2}`.
    """
    fields = {"port": 0, "store": tmp_path / "store", **getattr(request, "param", {})}
    lines: list[str] = []
    async with LocalStack(
        StackConfig(**fields), lambda name, line: lines.append(f"{name}: {line}")
    ) as running:
        yield running
    # pytest shows a fixture's output only beside a failure.
    print("\n".join(lines))
