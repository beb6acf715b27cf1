"""A container's health check asks the admin port and nothing else."""

import asyncio

import pytest

from ttscommon.process.admin import AdminServer, Health
from ttscommon.process.probe import healthy


async def asked(health: Health) -> bool:
    """What the probe says of a service with this health."""
    server = AdminServer(lambda: Health(), lambda: health)
    port = await server.start("127.0.0.1", 0)
    try:
        return await asyncio.to_thread(healthy, "readyz", port)
    finally:
        await server.close()


@pytest.mark.parametrize(("health", "expected"), [(Health(), True), (Health(("starting",)), False)])
async def test_a_container_is_as_healthy_as_its_admin_port_says(
    health: Health, expected: bool
) -> None:
    assert await asked(health) is expected


async def test_a_service_that_does_not_listen_is_not_healthy(unused_tcp_port: int) -> None:
    assert not await asyncio.to_thread(healthy, "livez", unused_tcp_port)
