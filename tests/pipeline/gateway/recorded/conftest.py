"""A stage that plays by the text, and seeds that are the same each time."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.settings import GatewaySettings
from tests.pipeline.gateway.recorded.tape import Play, Tape


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> GatewaySettings:
    """Text that comes at once is one piece, however slow the machine is."""
    return GatewaySettings(**{"port": 0, "coalesce_s": 0.1, **getattr(request, "param", {})})


@pytest.fixture
def play(stand: Any, talk: Any, monkeypatch: pytest.MonkeyPatch) -> Play:
    monkeypatch.setattr(secrets, "randbelow", lambda most: 7)
    stand.stage.script = Play(talk.recite)
    return stand.stage.script


@pytest.fixture
def tape(request: pytest.FixtureRequest) -> Iterator[Tape]:
    """Named after the test, and compared at its end."""
    made = Tape(request.node.originalname.removeprefix("test_"))
    yield made
    made.compare()
