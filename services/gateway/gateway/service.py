"""The gateway as a process: bus, HTTP server, drain."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Final, cast

import structlog
import uvicorn

from gateway.app import LARGE, Gateway, create_gateway
from gateway.connections import (
    ConnectionLimits,
    GuardedHttp,
    GuardedWebSocket,
    affordable_connections,
)
from gateway.protocols.wyoming import WyomingServer
from gateway.settings import GatewaySettings
from ttscommon.bus import Bus, StoreWatch
from ttscommon.cluster.admission.capacity import View, expected
from ttscommon.cluster.reaper import Reaper
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.process.service import Service
from ttscommon.process.tasks import stop, until
from ttscommon.wire.subjects import STAGES

Views = Callable[[], Iterable[tuple[str, View]]]


def export_capacity(
    metrics: GatewayMetrics, views: Views, utilisation: float
) -> Callable[[], None]:
    """What to call now and then, so that `tts_capacity_streams` says what `views` are worth."""
    shown: set[tuple[str, str]] = set()

    def export() -> None:
        found = {
            (name, model): expected(stage, view.frame_rate_hz, utilisation)
            for model, view in views()
            for name, stage in zip(STAGES, view.stages, strict=True)
        }
        for labels, streams in found.items():
            metrics.capacity.labels(*labels).set(streams)
        for gone in shown - found.keys():
            metrics.capacity.remove(*gone)
        shown.clear()
        shown.update(found)

    return export


log_ = structlog.get_logger(__name__)

_BACKLOG: Final = 2048
# What a connection's kernel buffer holds beyond what is on its way.
_UNSENT_BYTES: Final = 1 << 16
_HEARTBEAT_S: Final = 1.0
_LOOP: Final = "event-loop"
_HAND_OVER_S: Final = 5.0
_TICKS_A_LOOK: Final = 5


async def serve(service: Service, settings: GatewaySettings) -> None:
    """Run until `service.stopping`, then finish what is being spoken."""
    metrics = GatewayMetrics()
    metrics.startup.imported()
    listener = listen(settings)
    with metrics.startup.part("bus"):
        bus = await Bus.connect(settings.bus, "gateway")
    service.export(metrics.registry)
    gateway = create_gateway(settings, bus, metrics)
    reaper = Reaper(bus)
    http_server = server(gateway, settings)
    duties: list[asyncio.Task[None]] = []
    try:
        with metrics.startup.part("bus"):
            await bus.setup.verify()
            await gateway.context.catalogue.refresh()
        service.ready_when("bus", lambda: bus.connected)
        service.ready_when("store", lambda: bus.link.store.problem is None)
        metrics.bus_up.labels().set_function(lambda: bus.connected)
        metrics.store_up.labels().set_function(lambda: bus.link.store.problem is None)
        metrics.leases.labels().set_function(lambda: reaper.held)
        service.watch(_LOOP)
        catalogue = gateway.context.catalogue
        export = export_capacity(metrics, catalogue.views, settings.utilisation)

        def refreshed() -> None:
            export()
            reaper.hear(catalogue.reports)

        catalogue.refreshed = refreshed
        http = asyncio.create_task(http_server.serve(sockets=[listener]), name="http")
        duties = [
            http,
            asyncio.create_task(gateway.run(), name="catalogue"),
            asyncio.create_task(_beat(service), name="heartbeat"),
            asyncio.create_task(reaper.run(), name="reaper"),
            asyncio.create_task(bus.link.failed(), name="link"),
            asyncio.create_task(StoreWatch(bus.link, bus.try_to_store).run(), name="store"),
        ]
        async with wyoming(gateway, settings) as ports:
            metrics.startup.finish("gateway")
            service.announce(http=listener.getsockname()[1], **ports)
            await until(service.stopping, *duties)
            await gateway.drain(max(0.0, settings.drain_s - _HAND_OVER_S))
    finally:
        http_server.should_exit = True
        if duties:
            await asyncio.wait((duties[0],), timeout=_HAND_OVER_S)
        await stop(*duties)
        await bus.close()
        listener.close()


@contextlib.asynccontextmanager
async def wyoming(gateway: Gateway, settings: GatewaySettings) -> AsyncIterator[dict[str, int]]:
    """Where Home Assistant finds a voice, if it is configured to find one.

    Its clients bring no keys: where keys are needed, it is closed unless they have a tenant.
    """
    if settings.wyoming_port is None:
        yield {}
        return
    if gateway.context.keys.required and settings.wyoming_tenant is None:
        log_.warning("wyoming.closed", missing="ANTIPHON_WYOMING_TENANT, a name in the keys file")
        yield {}
        return
    async with WyomingServer(gateway.context, settings.host, settings.wyoming_port) as server:
        yield {"wyoming": server.port}


def listen(settings: GatewaySettings) -> socket.socket:
    """The bound listening socket; raises OSError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # A client that stopped reading keeps its connection open for ever otherwise: closing one
        # waits for its buffer to empty. Accepted sockets inherit the option.
        limit_ms = int(settings.slow_client_timeout_s * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        # The system would take megabytes, a minute or two of sound. A client that hears it as it is
        # played would seem to take nothing for as long as a third of that lasts.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def server(gateway: Gateway, settings: GatewaySettings) -> uvicorn.Server:
    """uvicorn without its own logging, signals or compression."""
    config = uvicorn.Config(
        gateway.app,
        loop="none",
        http=cast(type[asyncio.Protocol], partial(GuardedHttp, _limits(settings))),
        ws=cast(type[asyncio.Protocol], partial(GuardedWebSocket, LARGE)),
        # Nothing a client says of its address is believed unless a known proxy says it.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        ws_per_message_deflate=False,
        # A ping waits behind the sound that a client has not read yet, perhaps half a minute of it.
        # What tells of a client that is gone is the option of `listen`, for pings as well.
        ws_ping_timeout=None,
        # Above our own limit, so that a message somewhat too big gets a typed answer.
        ws_max_size=max(
            1 << 20, 2 * settings.max_message_bytes, settings.max_recording_bytes + (64 << 10)
        ),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    return _Server(config)


def _limits(settings: GatewaySettings) -> ConnectionLimits:
    """What connections may take. A response that is sent whole may lie in a file of its own."""
    connections = affordable_connections(settings.max_connections, settings.max_streams)
    return ConnectionLimits(
        settings.head_timeout_s, settings.body_timeout_s, connections=connections
    )


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the service, and slow clients alone."""

    async def on_tick(self, counter: int) -> bool:
        """End connections that are overdue; called every 0.1 s."""
        if counter % _TICKS_A_LOOK == 0:
            now_s = time.monotonic()
            for connection in list(self.server_state.connections):
                if isinstance(connection, GuardedHttp) and connection.late(now_s):
                    connection.give_up()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _beat(service: Service) -> None:
    while True:
        service.heartbeat(_LOOP)
        await asyncio.sleep(_HEARTBEAT_S)
