"""The reaper's figures, in one place because they depend on each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReaperTuning:
    """Finding dead workers and handing their jobs on. Origin: docs/performance.md, "Recovery"."""

    replicas_s: float = 0.5
    """How often workers' reports are read."""
    round_s: float = 0.25
    """Between two pings of every worker."""
    idle_round_s: float = 1.0
    """The same while no worker has a job; that all of them say so, when asked, is an answer too."""
    ping_s: float = 0.5
    """How long an answer may take."""
    late_s: float = 0.25
    """A ping that took longer by so much was not waited for: this process was late itself."""
    grace_s: float = 0.1
    """After the broker reported a disconnect; a worker that merely changed brokers is back by then.
    """
    gone_s: float = 0.3
    """How long a worker may have no subscription where no disconnect was seen (a broker that dies
    reports none).
    """
    reunion_s: float = 0.5
    """The same when this process was away itself: after an outage the workers come back within
    about that.
    """
    silent_s: float = 2.5
    """How long a connected worker may give no answer until it is given up."""
    term_s: float = 3.0
    """How long an election holds."""
    renewal_s: float = 0.7
    """How often the elected one says that it is: several times in a term."""
    leaderless_s: float = 15.0
    """How long the elected process goes on while the bucket itself has no leader (elections take 4
    to 9 s): no other can be elected.
    """
    list_s: float = 0.2
    """Until leases of a dead worker that could not be read are read again."""
    tail_s: float = 0.2
    """How long the log may take to say whether a holder made progress."""
    nak_s: float = 0.3
    """How long the queue may take to take a job back."""
    handover_s: float = 0.3
    """How long a worker may take to accept a job."""
    first_pause_s: float = 0.05
    """Between two attempts to hand on, doubled each time."""
    longest_pause_s: float = 0.5
    """The longest such pause."""
    given_s: float = 10.0
    """How long a worker that was handed a job directly may take to write its lease."""
    listed_s: float = 60.0
    """How long it is remembered that a dead worker's leases were read."""
    leftovers_s: float = 20.0
    """How long a lease may stay whose job is done and whose holder is dead."""
    check_s: float = 0.4
    """How often jobs are compared with what workers hold."""
    answers_s: float = 0.2
    """How long workers may take to say what they hold."""
    checks: int = 2
    """How many comparisons in a row must find no holder; a job may be on its way."""
    fallen_s: float = 10.0
    """For how long a worker's death may explain a job without a holder."""
    holder_s: float = 0.3
    """How long workers may take to say that they hold a certain job."""
    known_s: float = 2.0
    """How old a list of the jobs may be while all workers answer and hold what is on it."""


DEFAULT_TUNING = ReaperTuning()
