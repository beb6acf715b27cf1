"""Control of the limits: what a gateway sees of its own streams, and hears of others'."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

from gateway.admission.grant import Capacity, Grant
from gateway.admission.peers import LoopWord, Peers
from ttscommon.cluster.admission import AdmissionLimits, Judge, Streams
from ttscommon.cluster.admission.capacity import streams_of
from ttscommon.process.metrics import GatewayMetrics


class AdmissionControl:
    """One gateway's. `running`: its streams; those whose text pauses count for nothing. stop_jobs:
    has the streams of a model give way that no listener hears as they are made; whether any did.
    gives_up: whether a stream may be ended so that others do not run dry.
    """

    def __init__(
        self,
        judge: Judge,
        capacity: Capacity,
        peers: Peers,
        limits: AdmissionLimits,
        utilisation: float,
        metrics: GatewayMetrics,
        *,
        gives_up: bool = True,
    ) -> None:
        self.running: dict[int, Grant] = {}
        self.stop_jobs: Callable[[str], bool] = lambda model: False
        self._judge = judge
        self._capacity = capacity
        self._peers = peers
        self._limits = limits
        self._utilisation = utilisation
        self._metrics = metrics
        self._gives_up = gives_up
        self._slack_s: dict[str, float] = {}
        self._reported_s = -math.inf

    def streams(self, model: str) -> Streams:
        """Those of a model, at all gateways."""
        slacks = [self._slack_s.get(model), self._peers.slack_s(model)]
        silent = self._silent(model) + self._peers.silent(model)
        slack_s = min((one for one in slacks if one is not None), default=None)
        view = self._capacity.capacity(model)
        return streams_of(view, silent, slack_s, self._utilisation)

    def look(self, now: float) -> None:
        """Move every loop, and give up a stream where one has to be."""
        self._slack_s = _least(self.running.values(), now)
        for model, loop in self._judge.loops.items():
            streams = self.streams(model)
            if not streams.most:
                continue  # without workers there is nothing to learn
            loop.look(streams, now)
            self._show(model, streams, loop.limit)
            dry = loop.gives_up(streams, now)
            if dry and not self.stop_jobs(model) and self._gives_up:
                self._give_up(model)

    def is_short(self, model: str) -> bool:
        """Whether a listener has so little left that the limit falls."""
        slack_s = self.streams(model).slack_s
        return slack_s is not None and slack_s < self._limits.loop.low_s

    def words(self) -> dict[str, LoopWord]:
        """What the other gateways are to know of this one's streams, by model."""
        return {
            model: LoopWord(self._silent(model), self._slack_s.get(model), loop.limit)
            for model, loop in self._judge.loops.items()
        }

    def hear(self, words: dict[str, LoopWord]) -> None:
        """A gateway that has just started begins with the limits that others have found."""
        for model, word in words.items():
            loop = self._judge.loop(model)
            loop.limit = loop.limit or word.limit

    def has_news(self, now: float) -> bool:
        """Whether the others are to hear of what listeners have left; at most every `tell_s`."""
        due = bool(self._slack_s) and now - self._reported_s >= self._limits.tell_s
        if due:
            self._reported_s = now
        return due

    def _silent(self, model: str) -> int:
        return sum(one.waits and one.model == model for one in self.running.values())

    def _give_up(self, model: str) -> None:
        """End the youngest silent stream."""
        for grant in reversed(self.running.values()):
            if grant.waits and grant.model == model and grant.give_up is not None:
                grant.give_up()
                return

    def _show(self, model: str, streams: Streams, limit: float) -> None:
        metrics = self._metrics
        metrics.limit.labels(model).set(int(limit))
        metrics.silent.labels(model).set(streams.silent)
        slack_s = math.nan if streams.slack_s is None else streams.slack_s
        metrics.least_slack.labels(model).set(slack_s)


def _least(grants: Iterable[Grant], now: float) -> dict[str, float]:
    """The least playback that a listener has left, by model."""
    least: dict[str, float] = {}
    for grant in grants:
        slack_s = grant.slack_s(now)
        if slack_s is not None and slack_s < least.get(grant.model, math.inf):
            least[grant.model] = slack_s
    return least


class Refusals:
    """Log of the requests that were refused: a line a second of each kind, with their number."""

    def __init__(self, log: Callable[..., object], every_s: float = 1.0) -> None:
        self._log, self._every_s = log, every_s
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._logged_s = -math.inf

    def add(self, tenant: str, model: str, code: str, reason: str) -> None:
        self._counts[tenant, model, code, reason] += 1

    def flush(self, now: float) -> None:
        """Write what is to be written."""
        if not self._counts or now - self._logged_s < self._every_s:
            return
        self._logged_s = now
        for (tenant, model, code, reason), count in self._counts.items():
            self._log(
                "request.refused",
                tenant=tenant, model=model, code=code, reason=reason, count=count,
            )  # fmt: skip
        self._counts.clear()
