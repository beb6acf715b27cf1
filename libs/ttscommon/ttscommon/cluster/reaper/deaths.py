"""Blame for a worker's death among the jobs that it held.

A job whose log grew in the worker's hands did not kill it, nor did one that it computed nothing
for. Where many are left the worker is suspected and not the jobs: each shares the death. A worker
that is silent may only be slow, so this is counted apart.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

import structlog

from ttscommon.bus import Bus
from ttscommon.cluster.leases import Count, Lease
from ttscommon.cluster.progress import grew
from ttscommon.wire.subjects import STAGES

# So many jobs may be blamed for one death.
_FEW: Final = 3

log_ = structlog.get_logger(__name__)


async def after_death(
    bus: Bus, held: Sequence[Lease], timeout_s: float, *, silent: bool = False
) -> list[Lease]:
    """The leases of a worker that died abruptly, without it, as their next holders get them.

    `silent`: it was given up because it gave no answer, and may still live.

    Each log may take `timeout_s` to say whether it grew; one that does not leaves its job's figures
    as they are.
    """
    grown = await asyncio.gather(*(_grew(bus, lease, timeout_s) for lease in held))
    blamed = Counter(
        lease.deaths for lease, grew_ in zip(held, grown, strict=True) if _may_have(lease, grew_)
    )
    if max(blamed.values(), default=0) > _FEW:
        log_.warning("worker.suspected", worker_id=held[0].worker_id, jobs=blamed.total())
    return [
        _after(lease, grew_, _count(blamed[lease.deaths], silent=silent))
        for lease, grew_ in zip(held, grown, strict=True)
    ]


def _count(blamed: int, *, silent: bool) -> Count:
    """`blamed`: jobs that are as suspicious."""
    if silent:
        return "silences"
    return "shared" if blamed > _FEW else "deaths"


def _after(lease: Lease, grown: bool | None, count: Count) -> Lease:
    if _may_have(lease, grown):
        return lease.after_death(count)
    if grown and lease.held:
        return lease.cleared()
    return lease.released()


def _may_have(lease: Lease, grown: bool | None) -> bool:
    """Whether the job may have killed its worker."""
    return grown is False and lease.held and not lease.waiting


async def _grew(bus: Bus, lease: Lease, timeout_s: float) -> bool | None:
    try:
        async with asyncio.timeout(timeout_s):
            return await grew(bus, STAGES[lease.stage].writes, lease.request_id, lease.epoch)
    except TimeoutError:
        return None
