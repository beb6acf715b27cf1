"""The pair's image, with torch's CPU build: both stages speak from one container, and may die."""

import re
from collections.abc import Iterator

import numpy as np
import pytest

from tests.deploy.engine import ComposeStack, deployed, docker, running
from tests.deploy.test_compose import SENTENCE, killed_in_mid_sentence, speak

pytestmark = deployed

PAIR = "pair-gpu"
FILES = ("compose.yaml", "tests/deploy/substitutes/pair.yaml")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    """A stack without other engines, of two pairs."""
    services = ("nats", "gateway", PAIR)
    with running(tmp_path_factory.mktemp("pair"), services, FILES) as stack:
        stack.scale(**{PAIR: 2})
        yield stack


async def test_both_stages_speak_from_one_container(stack: ComposeStack) -> None:
    sound = await speak(stack.url, SENTENCE)
    assert np.abs(np.frombuffer(sound, "<i2")).max() > 1000
    for container in stack.containers(PAIR):
        page = stack.metrics(container)
        assert set(re.findall(r'^tts_slots\{.*stage="(\w+)"', page, re.M)) == {"talker", "vocoder"}
        running = docker("top", container, "-eo", "pid,args")
        for program in ("antiphon.pair", "talker.apart.edge", "vocoder.apart.edge"):
            assert f"-m {program}" in running
    assert "iolation" not in stack.log("nats")


async def test_a_pair_killed_in_mid_sentence_leaves_no_gap_in_the_sound(
    stack: ComposeStack,
) -> None:
    await killed_in_mid_sentence(stack, PAIR)
    stack.scale(**{PAIR: 2})


def test_a_drained_pair_ends_by_itself(stack: ComposeStack) -> None:
    victim = stack.containers(PAIR)[0]
    docker("stop", "--time", "40", victim)
    assert docker("inspect", "--format", "{{.State.ExitCode}}", victim).strip() == "0"
