"""The limits of each key, in sum over all gateways: streams at once, and what it uses a minute."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gateway.admission.peers import Peers, PeerUsage, TenantUse
from gateway.errors import RateLimited, StreamsUsed
from gateway.keys import Tenant

_MINUTE_S: Final = 60.0


class TokenBucket:
    """So many units a minute, all at once if they were saved up. May be overdrawn."""

    def __init__(self, per_minute: float) -> None:
        self._capacity = per_minute
        self._level = per_minute
        self._at_s = -math.inf

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` could be taken; 0 if it can be now.

        More than a full bucket is let through when the bucket is full, or it never could be.
        """
        missing = min(amount, self._capacity) - self.left(now)
        return max(0.0, missing) * _MINUTE_S / self._capacity

    def take(self, amount: float, now: float) -> None:
        self._level = self.left(now) - amount

    def times(self, amount: float, now: float) -> float:
        """How often `amount` could be taken now; see `wait_s` for more than a full bucket."""
        return self.left(now) / min(amount, self._capacity)

    def owed(self, now: float) -> float:
        """How many units are missing until it is full."""
        return self._capacity - self.left(now)

    def owe(self, amount: float, now: float) -> None:
        """Have at least so many units missing."""
        self._level = min(self.left(now), self._capacity - amount)

    def left(self, now: float) -> float:
        passed_s = max(0.0, now - self._at_s)
        self._level = min(self._capacity, self._level + passed_s * self._capacity / _MINUTE_S)
        self._at_s = max(self._at_s, now)
        return self._level


class Allowance:
    """What a tenant may still use of its minute, and what it has used here."""

    def __init__(self, tenant: Tenant) -> None:
        limits = {
            "requests": tenant.requests_per_minute,
            "characters": tenant.characters_per_minute,
        }
        self._buckets = {what: TokenBucket(most) for what, most in limits.items() if most}
        self._used: Counter[str] = Counter()

    def _each(self, requests: float, characters: float) -> Iterator[tuple[str, TokenBucket, float]]:
        amounts = {"requests": requests, "characters": characters}
        return ((what, bucket, amounts[what]) for what, bucket in self._buckets.items())

    def check(self, characters: int, now: float) -> None:
        """Raises RateLimited; takes nothing."""
        for what, bucket, amount in self._each(1, characters):
            if (wait_s := bucket.wait_s(amount, now)) > 0.0:
                raise RateLimited(
                    f"the key's {what} a minute are used up", retry_after_s=math.ceil(wait_s)
                )

    def use(self, requests: int, characters: int, now: float) -> None:
        """So much was used here. A long text overdraws, and the next requests wait for it."""
        self._used.update(requests=requests, characters=characters)
        self.elsewhere(requests, characters, now)

    def elsewhere(self, requests: float, characters: float, now: float) -> None:
        """So much was used at another gateway."""
        for _, bucket, amount in self._each(requests, characters):
            bucket.take(amount, now)

    def owe(self, requests: float, characters: float, now: float) -> None:
        """Another gateway, which was not known before, knows of so much that was used lately."""
        for _, bucket, amount in self._each(requests, characters):
            bucket.owe(amount, now)

    def requests_left(self, characters: int, now: float) -> float | None:
        """How many of so many characters each are left of the minute; None: no limit."""
        found = (b.times(amount, now) for _, b, amount in self._each(1, characters) if amount)
        return min(found, default=None)

    def report(self, held: int, now: float) -> TenantUse:
        """What to tell the other gateways, with the tenant's streams here."""
        owed = Counter({what: bucket.owed(now) for what, bucket in self._buckets.items()})
        used = self._used
        return TenantUse(
            *(held, used["requests"], used["characters"]),
            *(float(owed["requests"]), float(owed["characters"])),
        )


class KeyLimits:
    """The limits of all tenants. `held`: a tenant's streams here."""

    def __init__(
        self, tenants: Mapping[str, Tenant], peers: Peers, held: Callable[[str], int]
    ) -> None:
        self._tenants = tenants
        self._peers = peers
        self._held = held
        self._allowances = {name: Allowance(tenant) for name, tenant in tenants.items()}
        self._told: dict[str, TenantUse] = {}

    def update(self, tenants: Mapping[str, Tenant]) -> None:
        """Take new tenants, and new limits of known ones. A tenant that is gone keeps its limits:
        streams of it may still be spoken to their end.
        """
        for name, tenant in tenants.items():
            if tenant != self._tenants.get(name):
                self._allowances[name] = Allowance(tenant)
        self._tenants = {**self._tenants, **tenants}

    def limited(self, tenant: str) -> bool:
        """Whether the tenant has any limits."""
        return self._tenants[tenant].limited

    def check(self, tenant: str, characters: int, now: float, offline: int = 0) -> None:
        """Raises StreamsUsed or RateLimited if the tenant may not have one more; takes nothing.

        `offline`: streams of it here that are in no count, and give way to those that are.
        """
        free = self.free_streams(tenant)
        if free is not None and free <= offline:
            limit = self._tenants[tenant].streams
            raise StreamsUsed(f"all {limit} streams of this key are in use", retry_after_s=1.0)
        self._allowances[tenant].check(characters, now)

    def free_streams(self, tenant: str) -> int | None:
        """How many more the tenant may have at all gateways together; None: no limit."""
        limit = self._tenants[tenant].streams
        if limit is None:
            return None
        return limit - self._held(tenant) - self._peers.held(tenant)

    def free_requests(self, tenant: str, characters: int, now: float) -> float | None:
        """How many requests of so many characters are left of the minute; None: no limit."""
        return self._allowances[tenant].requests_left(characters, now)

    def use(self, tenant: str, requests: int, characters: int, now: float) -> None:
        """Requests were admitted here, or text of one came later."""
        self._allowances[tenant].use(requests, characters, now)

    def hear(self, usage: PeerUsage, now: float) -> None:
        """A tenant has used something at another gateway."""
        allowance = self._allowances.get(usage.tenant)
        if allowance is None:  # that gateway's keys are newer than ours
            return
        count = allowance.owe if usage.met else allowance.elsewhere
        count(usage.requests, usage.characters, now)

    def report(self, now: float, *, everything: bool) -> dict[str, TenantUse]:
        """What to tell the other gateways: what has changed, or all that is not idle."""
        uses = {}
        for name, allowance in self._allowances.items():
            if not self._tenants[name].limited:
                continue
            use, told = allowance.report(self._held(name), now), self._told.get(name, TenantUse())
            busy = use.held or use.requests_owed or use.characters_owed
            if use.counts != told.counts or (everything and busy):
                uses[name] = self._told[name] = use
        return uses
