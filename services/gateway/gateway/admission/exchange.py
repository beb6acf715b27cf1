"""Tells the other gateways what this one holds, and hears what they hold: reports of some hundred
bytes over core NATS, as soon as something changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from msgspec.structs import replace

from gateway.admission.admission import Admission
from gateway.admission.peers import GatewayUse
from ttscommon.bus import Bus, Incoming
from ttscommon.wire import subjects
from ttscommon.wire.errors import MalformedMessage

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ExchangeTuning:
    """Gateways telling each other what they admitted."""

    pause_s: float = 0.05
    """The least between two messages: half of a turn's window."""
    beat_s: float = 1.0
    """The most between two messages; one that comes then reports everything."""
    answer_s: float = 0.2
    """How long the other gateways may take to answer the first message."""


class LogNeeds(Protocol):
    """What gateways tell each other of the logs that they need; see Retention."""

    def report(self, *, leaving: bool = False) -> dict[str, int]: ...

    def hear(self, gateway: str, needs: Mapping[str, int] | None) -> None: ...


class Exchange:
    """One gateway's. `run` while it serves."""

    def __init__(
        self,
        bus: Bus,
        admission: Admission,
        needs: LogNeeds,
        tuning: ExchangeTuning = ExchangeTuning(),
    ) -> None:
        self._bus = bus
        self._admission = admission
        self._needs = needs
        self._tuning = tuning
        self._answers: asyncio.TimerHandle | None = None
        admission.acquainted.clear()

    async def run(self) -> None:
        """Tell and hear until cancelled; the others are told that this gateway has gone."""
        subject = subjects.gateway_use("*")
        subscription: Any = await self._bus.link.subscribe(subject, self._on_use)
        try:
            await self._say(self._admission.report(self._bus.worker_id, whole=True))
            while True:
                await self._tell_when_changed()
        finally:
            if self._answers is not None:
                self._answers.cancel()
            self._admission.acquainted.set()
            await self._say(GatewayUse(self._bus.worker_id, leaving=True))
            await self._bus.link.unsubscribe(subscription)

    async def _tell_when_changed(self) -> None:
        admission, tuning = self._admission, self._tuning
        try:
            async with asyncio.timeout(tuning.beat_s):
                await admission.changed.wait()
            whole = False
        except TimeoutError:
            whole = True
        admission.changed.clear()
        for name in admission.peers.forget_silent(time.monotonic()):
            log_.warning("gateway.silent", gateway=name)
        await self._say(admission.report(self._bus.worker_id, whole=whole))
        await asyncio.sleep(tuning.pause_s)

    async def _say(self, use: GatewayUse) -> None:
        use = replace(use, needs=self._needs.report(leaving=use.leaving))
        await self._bus.link.send_raw(subjects.gateway_use(self._bus.worker_id), use.encode())

    async def _on_use(self, message: Incoming) -> None:
        try:
            use = GatewayUse.decode(message.data)
        except MalformedMessage as error:
            log_.warning("gateway.malformed", error=error.message)
            return
        self._needs.hear(use.gateway, use.needs)
        if use.gateway == self._bus.worker_id:
            self._admission.turns.echo(use.word, use.recent)
            if self._answers is None:  # the others have heard the first report by now
                loop, acquainted = asyncio.get_running_loop(), self._admission.acquainted
                self._answers = loop.call_later(self._tuning.answer_s, acquainted.set)
            return
        met = use.gateway not in self._admission.peers and not use.leaving
        self._admission.hear(use)
        if met:  # a gateway that has just come knows nothing of this one
            log_.info("gateway.met", gateway=use.gateway)
            await self._say(self._admission.report(self._bus.worker_id, whole=True))
