"""When a worker was away, on a real broker."""

import asyncio
import time
from typing import Any

import pytest

from ttscommon.bus import Bus
from ttscommon.cluster.worker.leasekeeper import absence
from ttscommon.cluster.worker.tuning import SuspensionTuning

NEVER_S = 3600.0


async def test_a_process_that_was_paused_notices_it(bus: Bus) -> None:
    tuning = SuspensionTuning(tick_s=0.01, late_s=0.1, audit_s=NEVER_S)
    with bus.link.reconnections() as returned:
        waiting = asyncio.create_task(absence(returned, tuning))
        await asyncio.sleep(0)
        time.sleep(0.3)  # nothing of this process runs
        await asyncio.wait_for(waiting, 10)


@pytest.mark.own_broker
async def test_a_process_that_was_cut_off_notices_it(bus: Bus, broker: Any) -> None:
    tuning = SuspensionTuning(tick_s=NEVER_S, late_s=NEVER_S, audit_s=NEVER_S)
    with bus.link.reconnections() as returned:
        waiting = asyncio.create_task(absence(returned, tuning))
        broker.children["broker"].kill()
        await asyncio.wait_for(waiting, 20)
