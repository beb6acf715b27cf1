"""The knowledge of a job that travels with it when the reaper hands it over."""

from __future__ import annotations

from ttscommon.cluster.leases import Lease
from ttscommon.wire.handover import HandOver
from ttscommon.wire.subjects import StageName


def lease_of(handed: HandOver, stage: StageName) -> Lease:
    """What the dead worker's lease said of the job's past."""
    return Lease(
        "",
        stage,
        handed.request.request_id,
        handed.epoch,
        handed.receipt,
        handed.deaths,
        handed.bounces,
        handed.failures,
        shared=handed.shared,
        dead=handed.dead,
        silences=handed.silences,
    )
