"""File descriptors that a gateway's connections may use of those that the system gives it."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final

import structlog

# The broker's connection, the admin port, the libraries' files.
RESERVED: Final = 128

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Budget:
    """`connections` at once, and `spools`: files of responses that are sent whole."""

    connections: int
    spools: int

    @property
    def descriptors(self) -> int:
        return self.connections + self.spools + RESERVED

    def within(self, descriptors: int) -> Budget:
        """As much of it as so many descriptors allow; one connection at the least."""
        if self.descriptors <= descriptors:
            return self
        spools = min(self.spools, max(0, descriptors - RESERVED) // 5)
        return Budget(max(1, descriptors - RESERVED - spools), spools)


def descriptor_budget(wanted: Budget) -> Budget:
    """What this process can keep of `wanted`, its soft limit raised as far as it may be.

    Fewer connections than wanted are told in the log: without a descriptor nothing can be accepted,
    and the connection to the broker could not be made again either.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _raised(soft, hard, wanted.descriptors)
    granted = wanted.within(limit)
    if granted != wanted:
        log_.warning(
            "descriptors.short",
            limit=limit,
            needed=wanted.descriptors,
            connections=granted.connections,
        )
    return granted


def _raised(soft: int, hard: int, needed: int) -> int:
    """The soft limit, raised to what is needed or to the hard one."""
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return max(soft, needed)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return soft
    return most
