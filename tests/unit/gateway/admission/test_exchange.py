"""Four gateways over a real broker: what they admit together."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.admission import Admission, Applicant, Exchange, Peers
from gateway.errors import RateLimited
from gateway.keys import KeyRing, Tenant
from gateway.settings import GatewaySettings
from tests.unit.gateway.admission.replicas import Replicas
from tests.waits import until
from ttscommon.bus import Bus
from ttscommon.cluster.admission import AdmissionLimits, LoopTuning
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.wire.errors import Overloaded

GATEWAYS = 4
BEGINS = AdmissionLimits(loop=LoopTuning(first=1.0))
SLOTS = 32
WAIT_S = 2.0  # for the turns of four gateways on a busy machine
LIMITED = {"acme": Tenant(streams=8), "busy": Tenant(requests_per_minute=20)}


@dataclass
class Kept:
    """What a gateway needs of the logs, and heard of others' needs."""

    needs: dict[str, int] = field(default_factory=lambda: {"CODES": 7})
    heard: dict[str, Mapping[str, int] | None] = field(default_factory=dict)

    def report(self, *, leaving: bool = False) -> dict[str, int]:
        return {} if leaving else self.needs

    def hear(self, gateway: str, needs: Mapping[str, int] | None) -> None:
        self.heard[gateway] = needs


class Front:
    """One gateway's admission, and the streams it holds."""

    def __init__(self, bus: Bus, tenants: dict[str, Tenant]) -> None:
        peers = Peers()
        catalogue: Any = Replicas(slots=SLOTS, peers=peers)
        keys = KeyRing(tenants, required=True) if tenants else KeyRing()
        patient = GatewaySettings(ttfp_target_s=WAIT_S, max_wait_s=WAIT_S)
        self.admission = Admission(
            patient, catalogue, GatewayMetrics(), keys, peers=peers, limits=BEGINS
        )
        self.bus = bus
        self.held = ExitStack()
        self.kept = Kept()
        exchange = Exchange(bus, self.admission, self.kept)
        self.duties = [asyncio.create_task(one.run()) for one in (exchange, self.admission)]

    @property
    def streams(self) -> int:
        """Streams that it holds."""
        return self.admission.streams

    async def ask(self, tenant: str) -> bool:
        """Whether one more stream is admitted."""
        try:
            applicant = Applicant(tenant, "m", 5)
            await self.admission.wait(applicant)
            self.held.enter_context(self.admission.stream(applicant)).silence_ends()
        except (Overloaded, RateLimited):
            return False
        return True

    async def stop(self) -> None:
        self.held.close()
        for duty in self.duties:
            duty.cancel()
        await asyncio.gather(*self.duties, return_exceptions=True)
        await self.bus.close()


@pytest.fixture
async def fronts(broker: Any, request: pytest.FixtureRequest) -> AsyncIterator[list[Front]]:
    buses = [await Bus.connect(broker.bus, "gateway") for _ in range(GATEWAYS)]
    made = [Front(bus, getattr(request, "param", {})) for bus in buses]
    await until(lambda: all(len(front.admission.peers) == GATEWAYS - 1 for front in made))
    yield made
    for front in made:
        await front.stop()


async def burst(fronts: list[Front], each: int, tenant: str = "") -> int:
    """So many requests at each gateway in the same moment: how many are admitted."""
    asked = [front.ask(tenant) for front in fronts for _ in range(each)]
    return sum(await asyncio.gather(*asked))


async def test_a_burst_at_four_gateways_takes_what_there_is_and_not_four_times_as_much(
    fronts: list[Front],
) -> None:
    """Words that come late on a busy machine add shares, so only the order is certain."""
    admitted = await burst(fronts, SLOTS)
    assert SLOTS - GATEWAYS <= admitted < 2 * SLOTS
    # From then on everybody knows that all is taken.
    await until(lambda: all(f.streams + f.admission.peers.streams("m") == admitted for f in fronts))
    assert await burst(fronts, 4) <= max(0, SLOTS - admitted)


async def test_streams_that_end_at_one_gateway_make_room_at_another(fronts: list[Front]) -> None:
    assert await burst(fronts[:1], SLOTS) == SLOTS
    await until(lambda: fronts[1].admission.peers.streams("m") == SLOTS)
    assert await burst(fronts[1:2], 1) == 0
    fronts[0].held.close()
    await until(lambda: fronts[1].admission.peers.streams("m") == 0)
    assert await burst(fronts[1:2], 4) == 4


@pytest.mark.parametrize("fronts", [LIMITED], indirect=True)
async def test_a_keys_streams_are_limited_in_sum(fronts: list[Front]) -> None:
    admitted = await burst(fronts, 8, "acme")
    assert 8 - GATEWAYS <= admitted < 2 * 8
    await until(lambda: all(f.streams + f.admission.peers.held("acme") == admitted for f in fronts))
    assert await burst(fronts, 4, "acme") <= max(0, 8 - admitted)


@pytest.mark.parametrize("fronts", [LIMITED], indirect=True)
async def test_a_keys_requests_a_minute_are_limited_in_sum(fronts: list[Front]) -> None:
    admitted = 0
    for _ in range(4):
        admitted += await burst(fronts, 8, "busy")
        for front in fronts:
            front.held.pop_all().close()
    assert 20 - GATEWAYS <= admitted < 2 * 20


@pytest.mark.parametrize("fronts", [LIMITED], indirect=True)
async def test_a_gateway_that_comes_later_knows_what_a_key_has_used(
    fronts: list[Front], broker: Any
) -> None:
    await burst(fronts[:1], 20, "busy")
    fronts[0].held.close()
    late = Front(await Bus.connect(broker.bus, "gateway"), LIMITED)
    try:
        await until(lambda: len(late.admission.peers) == GATEWAYS)
        assert sum([await late.ask("busy") for _ in range(8)]) <= 1
    finally:
        await late.stop()


@pytest.mark.parametrize("fronts", [LIMITED], indirect=True)
async def test_a_gateway_that_has_just_come_asks_the_others_before_a_limited_key_gets_anything(
    fronts: list[Front], broker: Any
) -> None:
    await burst(fronts[:1], 8, "acme")
    late = Front(await Bus.connect(broker.bus, "gateway"), LIMITED)
    try:
        assert not late.admission.acquainted.is_set()
        assert not await late.ask("acme")
    finally:
        await late.stop()


async def test_gateways_hear_what_all_of_them_need_until_one_leaves_and_holds_nothing_any_more(
    fronts: list[Front],
) -> None:
    names = {front.bus.worker_id for front in fronts}
    await until(lambda: all(front.kept.heard.keys() == names for front in fronts))
    assert all(needs == {"CODES": 7} for front in fronts for needs in front.kept.heard.values())
    assert await burst(fronts[:1], SLOTS) == SLOTS
    await until(lambda: fronts[1].admission.peers.streams("m") == SLOTS)
    leaving = fronts.pop(0)
    await leaving.stop()
    await until(lambda: all(len(front.admission.peers) == GATEWAYS - 2 for front in fronts))
    assert fronts[0].admission.peers.streams("m") == 0
    await until(lambda: all(front.kept.heard[leaving.bus.worker_id] == {} for front in fronts))
