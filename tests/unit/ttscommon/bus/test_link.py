"""Connections that fail: told, retried, and given up where only a restart helps."""

import asyncio
import gc
import os
import re
import signal
import weakref
from collections.abc import AsyncIterator
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


@pytest.fixture
async def links() -> AsyncIterator[list[Link]]:
    opened: list[Link] = []
    yield opened
    for link in opened:
        await link.close()


def rotate(broker: Any, folder: Path, user: str, password: str) -> None:
    """Give the broker's user another password, as an operator does."""
    path = folder / "store" / "broker" / "nats.conf"
    pattern = rf'(user: {user}, password: )"[^"]*"'
    path.write_text(re.sub(pattern, rf'\1"{password}"', path.read_text()))
    os.kill(broker.children["broker"].pid, signal.SIGHUP)


async def test_a_wrong_password_ends_the_attempt(broker: Any) -> None:
    wrong = broker.bus.model_copy(update={"password": "wrong"})
    with pytest.raises(BusRefused, match="refuses the credentials"):
        async with asyncio.timeout(10):
            await Link.connect(wrong, "test", QUICK)


@pytest.mark.own_broker
async def test_a_broker_that_is_not_there_is_waited_for(broker: Any, links: list[Link]) -> None:
    broker.children["broker"].kill()
    links.append(await asyncio.wait_for(Link.connect(broker.bus, "test", QUICK), 20))


@pytest.mark.own_broker
async def test_a_connection_whose_password_was_revoked_fails_for_good(
    broker: Any, tmp_path: Path, links: list[Link]
) -> None:
    link = await Link.connect(broker.bus, "test", QUICK)
    links.append(link)
    rotate(broker, tmp_path, broker.bus.user, "another")
    with pytest.raises(BusRefused):
        await asyncio.wait_for(link.failed(), 20)


@pytest.mark.own_broker
async def test_a_password_that_is_rotated_in_its_file_is_taken_up(
    broker: Any, tmp_path: Path, links: list[Link]
) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{broker.bus.password}\n")
    settings = broker.bus.model_copy(update={"password": None, "password_file": secret})
    link = await Link.connect(settings, "test", LinkTuning(refused_s=20.0))
    links.append(link)
    back = asyncio.Event()

    async def reconnected() -> None:
        back.set()

    link.on_reconnect(reconnected)
    rotate(broker, tmp_path, broker.bus.user, "another")
    await asyncio.sleep(0.2)  # the file follows the broker's change by a moment
    secret.write_text("another")
    await asyncio.wait_for(back.wait(), 20)
    assert link.connected


async def test_a_connection_that_is_closed_behind_our_back_fails_for_good(
    broker: Any, links: list[Link]
) -> None:
    link = await Link.connect(broker.bus, "test", QUICK)
    links.append(link)
    await link.client.close()
    with pytest.raises(BusRefused, match="ended for good"):
        await asyncio.wait_for(link.failed(), TIMEOUT_S)


async def test_a_connection_that_we_close_has_not_failed(broker: Any) -> None:
    link = await Link.connect(broker.bus, "test", QUICK)
    await link.close()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(link.failed(), 0.1)


async def test_a_connection_that_we_close_is_no_trouble(broker: Any) -> None:
    link = await Link.connect(broker.bus, "worker")
    with capture_logs() as logs:
        await link.close()
    assert logs == []


async def test_a_wrong_system_password_is_told_and_holds_nothing_up(
    broker: Any, links: list[Link], capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = broker.bus.model_copy(update={"system_password": "wrong"})
    link = await Link.connect(wrong, "test", QUICK)
    links.append(link)
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


def test_a_user_and_a_file_of_credentials_contradict_each_other(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x")
    with pytest.raises(ValueError, match="one of user, nkey_file and creds_file"):
        BusSettings(user="me", nkey_file=file)
    with pytest.raises(ValueError, match="one of password and password_file"):
        BusSettings(user="me", password="x", password_file=file)
    with pytest.raises(ValueError, match="tls_key needs tls_cert"):
        BusSettings(tls_key=file)
    with pytest.raises(ValueError, match="there is no file"):
        BusSettings(tls_ca=tmp_path / "nowhere")


async def test_a_subscription_that_ended_needs_no_collection(
    broker: Any, links: list[Link]
) -> None:
    link = await Link.connect(broker.bus, "test", QUICK)
    links.append(link)
    gc.disable()
    try:
        subscription = await link.subscribe_inline("live.codes.r", lambda message: None)
        left = weakref.ref(subscription)
        await link.unsubscribe(subscription)
        del subscription
        assert left() is None
    finally:
        gc.enable()
