"""One gateway's judgement of new streams: the loop and the shares of keys together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from ttscommon.cluster.admission.limits import LoopTuning
from ttscommon.cluster.admission.loop import Loop, Streams
from ttscommon.cluster.admission.shares import Shares, Standing
from ttscommon.wire.errors import Overloaded, ShareUsed

# For so long after it asked a key has a part of the starts.
_ABOUT_S: Final = 2.0
# So many keys have a stream each, however low the limit.
_KEYS: Final = 2


class Judge:
    """Says which requests may start. The caller brings the clock.

    silent: streams of this gateway without sound, by tenant. loops: by model.
    """

    def __init__(self, weights: Mapping[str, float], target_s: float, tuning: LoopTuning) -> None:
        """`weights`: of tenants. `target_s`: how long a first sound may take."""
        self._target_s = target_s
        self._tuning = tuning
        self.shares = Shares(weights)
        self.silent: Counter[str] = Counter()
        self.loops: dict[str, Loop] = {}

    def loop(self, model: str) -> Loop:
        """The model's, which begins with the first question."""
        if model not in self.loops:
            self.loops[model] = Loop(self._target_s, self._tuning)
        return self.loops[model]

    def room(self, model: str, streams: Streams, now: float) -> int:
        """How many more streams of the model there is room for; negative where it has too many."""
        loop = self.loop(model)
        if not loop.limit:
            loop.look(streams, now)
        keys = min(_KEYS, len(self.shares.active(now)), streams.most)
        return max(int(loop.limit), keys) - streams.open

    def hold_s(self, model: str, streams: Streams, waiting: int, now: float) -> float:
        """How long a request that may not start now is held, behind so many that wait already.

        Where there is room for all of them it comes as first sounds do, and a burst is let in.
        """
        room = self.room(model, streams, now)
        return self._target_s if room > waiting else self._tuning.hold_s

    def check(self, model: str, streams: Streams, tenant: str, most: int, now: float) -> Standing:
        """How the tenant's next stream relates to its share.

        `most`: streams that this gateway may have. Takes nothing. Raises Overloaded.
        """
        room = self.room(model, streams, now)
        standing = self.shares.judge(tenant, min(most, self.shares.total + room), now)
        if standing is Standing.OVER:
            if room <= 0 or self.shares.total >= most:
                raise Overloaded("there is no room for another stream now")
            raise share_used()
        self._check_pace(self.loop(model), streams, tenant, standing, now)
        return standing

    def _check_pace(
        self, loop: Loop, streams: Streams, tenant: str, standing: Standing, now: float
    ) -> None:
        """A key's first silent stream waits for no other key's; borrowed ones wait for all."""
        own, starts = self.silent[tenant], loop.starts
        if standing is Standing.BORROWED and streams.silent:
            raise share_used()
        if own >= self.shares.part(starts, tenant, now, _ABOUT_S):
            raise Overloaded("other first sounds come before another stream's")
        if streams.silent >= (starts if own else 2 * starts):
            raise Overloaded("other first sounds come before another stream's")

    def take(self, tenant: str, *, silent: bool = True) -> None:
        """A stream starts. `silent`: it has no sound so far."""
        self.shares.take(tenant)
        self.silent[tenant] += silent


def share_used() -> ShareUsed:
    """A caller with more streams than its share asks for another."""
    return ShareUsed("this caller has its share of the streams", retry_after_s=1.0)
