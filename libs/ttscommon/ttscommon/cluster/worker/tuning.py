"""A worker's figures, in one place because they depend on each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ttscommon.cluster.leases import Lease


@dataclass(frozen=True)
class IsolationTuning:
    """Requests that may have crashed their workers."""

    suspect: int = 2
    """Deaths of holders, in a row and without progress, from which on a request is suspected."""
    poison: int = 3
    """Deaths from which on it ends."""
    endless: int = 6
    """Deaths shared with other requests, or mere silence, that end it."""
    bounces: int = 2
    """How often a worker with other streams gives a suspect back, in case another has none."""
    bounce_s: float = 0.25
    """Between two of these."""
    trial_s: float = 1.0
    """How long a suspect keeps other suspects from beginning."""
    turn_s: float = 2.0
    """How long a suspect waits for that."""
    look_s: float = 0.1
    """How often its log is looked at for progress."""
    note_s: float = 0.3
    """How long writing its lease may take."""

    def suspects(self, lease: Lease) -> bool:
        """Whether the request may have crashed its workers."""
        return lease.deaths + lease.shared + lease.silences >= self.suspect

    def convicts(self, lease: Lease) -> bool:
        """Whether it has: what it shared counts as one death, unless there is no end of it.

        Silence counts for nothing until then: with both workers of a stage killed, the next one is
        slow because it has all streams.
        """
        endless = lease.shared + lease.silences >= self.endless
        return endless or lease.deaths + min(lease.shared, 1) >= self.poison


@dataclass(frozen=True)
class SuspensionTuning:
    """A worker noticing that it was stopped itself. Tick and lateness together are less than the
    reaper takes to give a silent worker up.
    """

    tick_s: float = 1.0
    """Between two looks."""
    late_s: float = 1.0
    """A look that is so late follows an absence."""
    audit_s: float = 30.0
    """How long no absence may be seen until the leases are looked at all the same."""


@dataclass(frozen=True)
class WorkerTuning:
    """Holding, finishing and giving back jobs."""

    heartbeat_s: float = 7.0
    """Between two heartbeats of a job: a quarter of ack_wait."""
    most_failures: int = 8
    """After so many without progress a job ends in an error."""
    retry_s: float = 0.2
    """Times the number of failures: the pause before the next attempt."""
    lease_s: float = 0.3
    """How long a successor waits for its lease before it begins."""
    lease_retry_s: float = 0.3
    """Until an unwritten lease is tried again."""
    give_back_s: float = 1.0
    """How long giving a job back may take."""
    clean_up_s: float = 2.0
    """How long a handler may take to leave, and a little more."""
    acks_s: float = 20.0
    """How long an acknowledgement is tried: longer than an election."""
    ack_s: float = 1.0
    """How long one attempt may take."""
    ack_pause_s: float = 0.2
    """Between two attempts."""
    listeners_s: float = 1.0
    """How often a job's listener is looked for."""
    suspension: SuspensionTuning = field(default_factory=SuspensionTuning)
    """Noticing that this worker was stopped."""
    isolation: IsolationTuning = field(default_factory=IsolationTuning)
    """Requests that may have crashed their workers."""


DEFAULT_TUNING: Final = WorkerTuning()
