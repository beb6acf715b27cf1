"""Fixtures: the stack in containers, once for each module that asks for it, and wheels."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.engine import SERVICES, ComposeStack, host_address, needed, running
from tests.deploy.installed import build
from tests.otlp import OtlpReceiver


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    """compose.yaml, built here, with two engines of each stage."""
    needed()
    folder, services = tmp_path_factory.mktemp("compose"), (*SERVICES, "prometheus")
    with (
        OtlpReceiver(host_address()) as receiver,
        running(folder, services, CPU_ENGINES="2", TRACES=receiver.url) as stack,
    ):
        stack.traces = receiver
        yield stack


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of our packages, as they would be published or, for `make release`, are."""
    made = os.environ.get("ANTIPHON_WHEELS")
    return Path(made).resolve() if made else build(tmp_path_factory.mktemp("wheels"))
