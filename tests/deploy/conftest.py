"""Fixtures: the stack in containers, once for each module that asks for it."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.engine import SERVICES, ComposeStack, host_address, missing, running
from tests.otlp import OtlpReceiver


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    """compose.yaml, built here, with two engines of each stage and no names in common."""
    if reason := missing():
        pytest.skip(reason)
    folder: Path = tmp_path_factory.mktemp("compose")
    project, services = f"antiphon-test-{secrets.token_hex(3)}", (*SERVICES, "prometheus")
    with (
        OtlpReceiver(host_address()) as receiver,
        running(project, folder, services, CPU_ENGINES="2", TRACES=receiver.url) as stack,
    ):
        stack.traces = receiver
        yield stack
