"""The other gateways of the deployment: what they hold and have used, as they report it, and whose
turn it is where several see the same free streams. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec.structs import replace

from ttscommon.wire.structs import AsMessagePack


class TenantUse(msgspec.Struct, frozen=True, array_like=True):
    """held: streams now. requests, characters: admitted since the gateway started.
    requests_owed, characters_owed: what its minute's allowances are short of being full.
    """

    held: int = 0
    requests: int = 0
    characters: int = 0
    requests_owed: float = 0.0
    characters_owed: float = 0.0

    @property
    def counts(self) -> tuple[int, int, int]:
        """What changes only where something happens."""
        return self.held, self.requests, self.characters


class LoopReport(msgspec.Struct, frozen=True, array_like=True):
    """A gateway's figures for one model. silent, slack_s: see Streams. limit: see Loop."""

    silent: int = 0
    slack_s: float | None = None
    limit: float = 0.0


class GatewayUse(msgspec.Struct, AsMessagePack, frozen=True):
    """One gateway's report to the others.

    streams: by model. recent: streams admitted in the last second. tenants: those with limits that
    changed, or, if `whole`, all of them that are not idle. word: the report's number. leaving: the
    gateway holds nothing any more. needs: by stream, behind which sequence it needs every record;
    None from a gateway of a version that does not say. offline: offline streams by model. loops: by
    model.
    """

    gateway: str
    streams: dict[str, int] = {}
    recent: int = 0
    tenants: dict[str, TenantUse] = {}
    whole: bool = False
    word: int = 0
    leaving: bool = False
    needs: dict[str, int] | None = None
    offline: dict[str, int] = {}
    loops: dict[str, LoopReport] = {}


@dataclass(frozen=True)
class PeersTuning:
    """Knowing which other gateways live."""

    silent_s: float = 3.0
    """A gateway that was silent for so long is gone: three times what a live one takes."""


@dataclass
class _Peer:
    heard_s: float
    use: GatewayUse
    tenants: dict[str, TenantUse]


@dataclass(frozen=True)
class PeerUsage:
    """What a peer's report adds to what a tenant has used, or, where the two gateways have just
    met, what the tenant owes at least.
    """

    tenant: str
    requests: float
    characters: float
    met: bool


class Peers:
    """The other gateways that live."""

    def __init__(self, tuning: PeersTuning = PeersTuning()) -> None:
        self._tuning = tuning
        self._peers: dict[str, _Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, gateway: str) -> bool:
        return gateway in self._peers

    def streams(self, model: str) -> int:
        """Streams of a model at the other gateways."""
        return sum(peer.use.streams.get(model, 0) for peer in self._peers.values())

    def offline(self, model: str) -> int:
        """Streams of a model at the other gateways that no listener hears as they are made."""
        return sum(peer.use.offline.get(model, 0) for peer in self._peers.values())

    def silent(self, model: str) -> int:
        """Streams of a model without a first sound at the other gateways."""
        return sum(report.silent for report in self._loops(model))

    def slack_s(self, model: str) -> float | None:
        """The least playback that one of their listeners has left; None where no gateway says."""
        slacks = (one.slack_s for one in self._loops(model) if one.slack_s is not None)
        return min(slacks, default=None)

    def _loops(self, model: str) -> Iterator[LoopReport]:
        found = (peer.use.loops.get(model) for peer in self._peers.values())
        return (report for report in found if report is not None)

    def held(self, tenant: str) -> int:
        """A tenant's streams at the other gateways."""
        known = (peer.tenants.get(tenant) for peer in self._peers.values())
        return sum(use.held for use in known if use is not None)

    def share(self, recent: int) -> float:
        """This gateway's part of what all may take now, by what it admitted in the last second.

        The parts of all gateways add up to one as far as they know the same of each other.
        """
        total = recent + sum(peer.use.recent for peer in self._peers.values())
        return (1 + recent) / (1 + len(self._peers) + total)

    def hear(self, use: GatewayUse, now: float) -> list[PeerUsage]:
        """Take a peer's report; returns what its tenants have used that was not known."""
        if use.leaving:
            self._peers.pop(use.gateway, None)
            return []
        peer = self._peers.get(use.gateway)
        if peer is None:
            self._peers[use.gateway] = _Peer(now, use, dict(use.tenants))
            return list(_owed(use.tenants))
        spent = list(_since(peer.tenants, use.tenants))
        peer.heard_s, peer.use = now, use
        if use.whole:  # a report that said so may have been lost
            idle = peer.tenants.keys() - use.tenants.keys()
            peer.tenants.update({t: replace(peer.tenants[t], held=0) for t in idle})
        peer.tenants.update(use.tenants)
        return spent

    def forget_silent(self, now: float) -> list[str]:
        """Drop gateways that have not reported for too long; returns their names."""
        silent_s = self._tuning.silent_s
        gone = [name for name, peer in self._peers.items() if now - peer.heard_s > silent_s]
        for name in gone:
            del self._peers[name]
        return gone


def _owed(tenants: dict[str, TenantUse]) -> Iterator[PeerUsage]:
    for name, use in tenants.items():
        yield PeerUsage(name, use.requests_owed, use.characters_owed, met=True)


def _since(before: dict[str, TenantUse], now: dict[str, TenantUse]) -> Iterable[PeerUsage]:
    for name, use in now.items():
        known = before.get(name, TenantUse())
        requests, characters = use.requests - known.requests, use.characters - known.characters
        if requests > 0 or characters > 0:
            yield PeerUsage(name, requests, characters, met=False)


_RECENT_S: Final = 1.0


@dataclass
class Turns:
    """What this gateway took of each kind in the window that is open.

    A window closes after `window_s`, and not before the report that tells of it has come back from
    the broker, and with it all that the others reported before: a busy gateway hears late. It
    closes after `most_s` in any case, where there is no broker.
    """

    peers: Peers
    window_s: float = 0.1
    most_s: float = 1.0
    _said: int = 0
    _echoed: int = 0
    _told: int = 0
    _admitted_s: deque[float] = field(default_factory=deque)
    _taken: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)

    def took(self, kinds: Iterable[str], now: float) -> None:
        """A request was admitted, which takes one of each kind."""
        if self.peers:
            self._admitted_s.append(now)
            for kind in kinds:
                self._taken.setdefault(kind, deque()).append((now, self._said + 1))

    def say(self, now: float) -> tuple[int, int]:
        """What the next report says: requests admitted in the last second, and its own number; it
        tells of all that was taken before.
        """
        while self._admitted_s and self._admitted_s[0] + _RECENT_S <= now:
            self._admitted_s.popleft()
        self._said += 1
        return len(self._admitted_s), self._said

    def echo(self, word: int, recent: int) -> None:
        """A report of this gateway came back: the others know it, and `recent` in it."""
        self._told = recent
        self._echoed = max(self._echoed, word)

    def has_come(self, kind: str, free: float, now: float) -> bool:
        """Whether one more of `free` may be taken: a gateway may take its share of what was free
        before the window, and always one.
        """
        taken = self._within(kind, now)
        share = self.peers.share(self._told)  # or the shares of all were more than one
        return not taken or len(taken) + 1 <= (free + len(taken)) * share

    def _within(self, kind: str, now: float) -> deque[tuple[float, int]]:
        taken = self._taken.get(kind, deque())
        while taken and self._is_over(*taken[0], now):
            taken.popleft()
        if not taken:
            self._taken.pop(kind, None)
        return taken

    def _is_over(self, at_s: float, word: int, now: float) -> bool:
        known = word <= self._echoed or at_s + self.most_s <= now
        return known and at_s + self.window_s <= now
