"""A worker's figures, in one place because they depend on each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ttscommon.cluster.leases import Lease


@dataclass(frozen=True)
class IsolationTuning:
    """`suspect`, `poison`: deaths of holders, in a row and without progress, from which on a
    request is suspected or ends; `endless`: those that it shared with others, or that were mere
    silence, and that end it. `bounces`: how often
    a worker with other streams gives a suspect back, `bounce_s` apart, in case another has none.
    `trial_s`: how long a suspect keeps other suspects from beginning, and `turn_s` how long one
    waits for that. `look_s`: how often it is looked whether its log has grown. `note_s`: how long
    its lease may take to be written.
    """

    suspect: int = 2
    poison: int = 3
    endless: int = 6
    bounces: int = 2
    bounce_s: float = 0.25
    trial_s: float = 1.0
    turn_s: float = 2.0
    look_s: float = 0.1
    note_s: float = 0.3

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
class AbsenceTuning:
    """Seconds. `tick_s`: how often it is looked; a look that is `late_s` late follows an absence.
    Together they are less than the reaper takes to give a silent worker up. `audit_s`: how long
    nothing may be seen until the leases are looked at all the same.
    """

    tick_s: float = 1.0
    late_s: float = 1.0
    audit_s: float = 30.0


@dataclass(frozen=True)
class WorkerTuning:
    """`heartbeat_s`: a quarter of ack_wait. `most_failures`: after so many without progress a job
    ends in an error; `retry_s` times their number lies between two. `lease_s`: how long a successor
    waits for its lease before it begins. `lease_retry_s`: until an unwritten lease is tried again.
    `give_back_s`: how long giving a job back may take. `clean_up_s`: longer than a handler takes to
    leave. An acknowledgement is tried for `acks_s`, longer than an election, for `ack_s` at a time.
    `listeners_s`: how often it is looked whether somebody listens.
    """

    heartbeat_s: float = 7.0
    most_failures: int = 8
    retry_s: float = 0.2
    lease_s: float = 0.3
    lease_retry_s: float = 0.3
    give_back_s: float = 1.0
    clean_up_s: float = 2.0
    acks_s: float = 20.0
    ack_s: float = 1.0
    ack_pause_s: float = 0.2
    listeners_s: float = 1.0
    absence: AbsenceTuning = field(default_factory=AbsenceTuning)
    isolation: IsolationTuning = field(default_factory=IsolationTuning)


DEFAULT_TUNING: Final = WorkerTuning()
