"""The reaper's figures, in one place because they depend on each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReaperTuning:
    """Seconds, unless they are counts. Origin: docs/performance.md, "Recovery".

    Who is dead. `replicas_s`: how often workers' reports are read. `round_s`: between two pings of
    every worker. `ping_s`: how long
    an answer may take; `late_s`: a ping that took longer by so much was not waited for, this
    process was late itself. `grace_s`: after the broker reported a disconnect; a worker that merely
    changed brokers is back by then. `gone_s`: how long nobody may listen where no disconnect was
    seen (a broker that dies reports none); `reunion_s`: the same when this process was away itself,
    because after an outage the workers come back within about that. `silent_s`: how long a
    connected worker may give no answer until it is given up.

    Who leads. `term_s`: how long an election holds. `leaderless_s`: how long the elected one goes
    on while the bucket itself has no leader (elections take 4 to 9): nobody else can be elected.

    Handing on. `list_s`: until the leases of a dead worker that could not be read are read again.
    `tail_s`: how long the log may take to say whether a holder got anywhere. `nak_s`: how long the
    queue may take, and `handover_s` a worker. Between two attempts lies `first_pause_s`, doubled up
    to `longest_pause_s`. `given_s`: how long a worker that was handed a job directly may take to
    write its lease. `listed_s`: how long it is remembered that a dead worker's leases were read.
    `leftovers_s`: how long a lease may stay whose job is done and whose holder is dead.

    Orphans. `check_s`: how often jobs are compared with what workers hold; `census_s`: how long
    those may take to say so. `checks`: how many in a row must find nobody; a job may be on its way.
    `fallen_s`: for how long a worker's death may explain a job without a holder.
    `holder_s`: how long workers may take to say that they hold a certain job. `known_s`: how old a
    list of the jobs may be while all workers answer and hold what is on it.
    """

    replicas_s: float = 0.5
    round_s: float = 0.25
    ping_s: float = 0.5
    late_s: float = 0.25
    grace_s: float = 0.1
    gone_s: float = 0.3
    reunion_s: float = 0.5
    silent_s: float = 2.5

    term_s: float = 3.0
    leaderless_s: float = 15.0

    list_s: float = 0.2
    tail_s: float = 0.2
    nak_s: float = 0.3
    handover_s: float = 0.3
    first_pause_s: float = 0.05
    longest_pause_s: float = 0.5
    given_s: float = 10.0
    listed_s: float = 60.0
    leftovers_s: float = 20.0

    check_s: float = 0.4
    census_s: float = 0.2
    checks: int = 2
    fallen_s: float = 10.0
    holder_s: float = 0.3
    known_s: float = 2.0


DEFAULT_TUNING = ReaperTuning()
