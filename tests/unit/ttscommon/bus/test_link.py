"""Connections that fail: told, retried, and given up where only a restart helps."""

import asyncio
import gc
import os
import re
import signal
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.waits import TIMEOUT_S, until
from ttscommon.bus.link import Link, LinkTuning
from ttscommon.bus.watches import watch_disconnects
from ttscommon.process.settings import BusSettings
from ttscommon.wire.errors import BusRefused

QUICK = LinkTuning(refused_s=0.3)


Open = Callable[..., Awaitable[Link]]


@pytest.fixture
async def connected() -> AsyncIterator[Open]:
    """Opens links, which are closed behind the test."""
    async with AsyncExitStack() as links:

        async def opened(settings: BusSettings, tuning: LinkTuning = QUICK) -> Link:
            link = await Link.connect(settings, "test", tuning)
            links.push_async_callback(link.close)
            return link

        yield opened


def rotate(broker: Any, folder: Path, user: str, password: str) -> None:
    """Give the broker's user another password, as an operator does."""
    path = folder / "store" / "broker" / "nats.conf"
    pattern = rf'(user: {user}, password: )"[^"]*"'
    path.write_text(re.sub(pattern, rf'\1"{password}"', path.read_text()))
    os.kill(broker.children["broker"].pid, signal.SIGHUP)


async def test_a_wrong_password_ends_the_attempt(broker: Any, connected: Open) -> None:
    wrong = broker.bus.model_copy(update={"password": "wrong"})
    with pytest.raises(BusRefused, match="refuses the credentials"):
        async with asyncio.timeout(10):
            await connected(wrong)


@pytest.mark.own_broker
async def test_a_broker_that_is_not_there_is_waited_for(broker: Any, connected: Open) -> None:
    broker.children["broker"].kill()
    await asyncio.wait_for(connected(broker.bus), TIMEOUT_S)


@pytest.mark.own_broker
async def test_a_connection_whose_password_was_revoked_fails_for_good(
    broker: Any, tmp_path: Path, connected: Open
) -> None:
    link = await connected(broker.bus)
    rotate(broker, tmp_path, broker.bus.user, "another")
    with pytest.raises(BusRefused):
        await asyncio.wait_for(link.failed(), 20)


@pytest.mark.own_broker
async def test_a_password_that_is_rotated_in_its_file_is_taken_up(
    broker: Any, tmp_path: Path, connected: Open
) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{broker.bus.password}\n")
    settings = broker.bus.model_copy(update={"password": None, "password_file": secret})
    link = await connected(settings, LinkTuning(refused_s=20.0))
    with link.reconnections() as back:
        rotate(broker, tmp_path, broker.bus.user, "another")
        await asyncio.sleep(0.2)  # the file follows the broker's change by a moment
        secret.write_text("another")
        await asyncio.wait_for(back.wait(), 20)
    assert link.connected


async def test_a_connection_that_is_closed_behind_our_back_fails_for_good(
    broker: Any, connected: Open
) -> None:
    link = await connected(broker.bus)
    await link.client.close()
    with pytest.raises(BusRefused, match="ended for good"):
        await asyncio.wait_for(link.failed(), TIMEOUT_S)


async def test_a_connection_that_we_close_has_not_failed_and_is_no_trouble(broker: Any) -> None:
    link = await Link.connect(broker.bus, "test")
    with capture_logs() as logs:
        await link.close()
    assert logs == []
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(link.failed(), 0.1)


async def test_a_wrong_system_password_is_told_and_holds_nothing_up(
    broker: Any, connected: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = broker.bus.model_copy(update={"system_password": "wrong"})
    link = await connected(wrong)
    watching = asyncio.create_task(watch_disconnects(link, lambda name: None))
    told: list[str] = []

    def is_told() -> bool:
        told.append(capsys.readouterr().out)
        return "system_account.unusable" in told[-1]

    await until(is_told)
    assert "error" in told[-1].split("system_account.unusable")[0]
    assert not watching.done()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"user": "me", "nkey_file": __file__}, "one of user, nkey_file and creds_file"),
        ({"user": "me", "password": "x", "password_file": __file__}, "password and password_file"),
        ({"tls_key": __file__}, "tls_key needs tls_cert"),
        ({"tls_ca": "/nowhere"}, "there is no file"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        BusSettings(**given)


async def test_a_subscription_that_ended_needs_no_collection(broker: Any, connected: Open) -> None:
    link = await connected(broker.bus)
    gc.disable()
    try:
        subscription = await link.subscribe_inline("live.codes.r", lambda message: None)
        left = weakref.ref(subscription)
        await link.unsubscribe(subscription)
        del subscription
        assert left() is None
    finally:
        gc.enable()
