"""The limits of each key, in sum over all gateways."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.admission.keys import Allowance, Tenant
from gateway.admission.peers import Peers, Spent, TenantUse
from gateway.errors import StreamsUsed


class KeyLimits:
    """Streams at once, and requests and characters a minute. `held`: a tenant's streams here."""

    def __init__(
        self, tenants: Mapping[str, Tenant], peers: Peers, held: Callable[[str], int]
    ) -> None:
        self._tenants = tenants
        self._peers = peers
        self._held = held
        self._allowances = {name: Allowance(tenant) for name, tenant in tenants.items()}
        self._told: dict[str, TenantUse] = {}

    def take(self, tenants: Mapping[str, Tenant]) -> None:
        """New tenants, or others' new limits. A tenant that is gone keeps its own: it may have
        streams that are spoken to their end.
        """
        for name, tenant in tenants.items():
            if tenant != self._tenants.get(name):
                self._allowances[name] = Allowance(tenant)
        self._tenants = {**self._tenants, **tenants}

    def limited(self, tenant: str) -> bool:
        """Whether it has any."""
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

    def request(self, tenant: str, characters: int, now: float) -> None:
        """A request of so many characters was admitted here."""
        self._allowances[tenant].request(characters, now)

    def text(self, tenant: str, characters: int, now: float) -> None:
        """So much text of an admitted request came later."""
        self._allowances[tenant].text(characters, now)

    def spent(self, spent: Spent, now: float) -> None:
        """A tenant has used something at another gateway."""
        allowance = self._allowances.get(spent.tenant)
        if allowance is None:  # its keys are newer than ours
            return
        if spent.met:
            allowance.owe(spent.requests, spent.characters, now)
        else:
            allowance.elsewhere(spent.requests, spent.characters, now)

    def use(self, now: float, *, everything: bool) -> dict[str, TenantUse]:
        """What to tell the other gateways: what has changed, or all that is not idle."""
        uses = {}
        for name, allowance in self._allowances.items():
            if not self._tenants[name].limited:
                continue
            use = allowance.use(self._held(name), now)
            told = self._told.get(name, TenantUse())
            changed = (use.held, use.requests, use.characters) != (
                told.held, told.requests, told.characters,
            )  # fmt: skip
            busy = use.held or use.requests_owed or use.characters_owed
            if changed or (everything and busy):
                uses[name] = self._told[name] = use
        return uses
