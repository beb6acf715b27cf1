"""Delivery of a request to one listener, and reports of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from opentelemetry.trace import Span

from gateway.admission import Grant
from gateway.requests.services import RequestServices
from gateway.requests.sources import SpeechSource
from ttscommon.process import tracing
from ttscommon.process.metrics import RequestOutcome
from ttscommon.sound.playback import FIRST_CHUNKS, Arrival, PlaybackAccount
from ttscommon.wire import subjects
from ttscommon.wire.messages import AudioChunk, Playback, Spent


class ListenerDelivery:
    """The playback of one request: metrics, the stages' deadlines and admission follow it.

    `account` is None until there is a first sound. `ttfp_s` and `stages`: how long that took, and
    where. `busy`: the workers were too busy: the first sound was late, or there was a gap although
    all of the text had come. `reported_s`: when the stages heard last of the listener.
    """

    def __init__(self, services: RequestServices, source: SpeechSource) -> None:
        self.account: PlaybackAccount | None = None
        self.ttfp_s: float | None = None
        self.stages: dict[str, float] = {}
        self.busy = False
        self.reported_s = 0.0
        self.accepted_s = time.monotonic()
        self._services = services
        self._source = source
        self._characters = 0  # counted as use
        self._lead_s = 0.0  # of silence in front, which the client is not sent
        self._headroom = services.headrooms[source.spec.model.name]
        self._given_s = 0.0  # more than its first chunk would have had
        self._listener = services.metrics.listener(source.spec.model.name, source.spec.tenant)

    @property
    def samples(self) -> int:
        """Samples at the client's rate that were sent."""
        return self.account.samples if self.account else 0

    @property
    def duration_s(self) -> float:
        return self.account.duration_s if self.account else 0.0

    @property
    def viable(self) -> bool:
        """Whether the listener never had to wait."""
        return self.account is None or self.account.viable

    def played_s(self) -> float:
        """How far a listener who plays at once has heard."""
        return self.account.position_s(time.monotonic()) if self.account else 0.0

    def slack_s(self, now: float, heard_s: float) -> float | None:
        """Playback that the listener has left; None before `heard_s` of it."""
        account = self.account
        if account is None or account.first_at_s is None or now - account.first_at_s < heard_s:
            return None
        return account.ends_at_s - now

    def accept(self) -> None:
        """There is something to say from now on."""
        self.accepted_s = time.monotonic()

    def headroom_s(self) -> float:
        """What its first chunk is to have more."""
        self._given_s = 0.0 if self._source.spec.offline else self._headroom.seconds
        return self._given_s

    def came(self, chunk: AudioChunk) -> None:
        """A chunk came from the stages; the first says what it waited for."""
        self._lead_s = chunk.checkpoint.lead / chunk.sample_rate
        if chunk.spent and self._source.fresh:
            self.stages = breakdown(time.monotonic() - self.accepted_s, chunk.spent)

    async def handed(self, samples: int, grant: Grant, span: Span) -> None:
        """`samples` at the client's rate were just given to its connection."""
        now = time.monotonic()
        if self.account is None:
            self.account = PlaybackAccount(self._source.spec.sample_rate)
            self._first_sound(now - self.accepted_s, grant, span)
        before_s = self.account.duration_s
        arrival = self.account.feed(samples, now)
        self._count(samples, arrival, before_s)
        text = self._source.text
        self.busy |= arrival.underrun_s > 0 and (text is None or text.complete)
        if self.account.chunks == FIRST_CHUNKS:
            self._learn(self.account)
        overdue = now - self.reported_s >= self._services.tuning.report_every_s
        if arrival.underrun_s > 0 or overdue:
            self.reported_s = now
            heard_s = self._source.spec.stretch * self.account.position_s(now)
            await self._report(self._lead_s + self._source.heard_s + heard_s)

    def begin(self) -> None:
        """Count a request of its key, unless another connection began it."""
        self._use(requests=int(self._source.fresh))

    def count_text(self, characters: int) -> None:
        """Count its text as use; `characters` have come in all."""
        self._use(characters=characters - self._characters)
        self._characters = characters

    def settle(self, outcome: RequestOutcome, characters: int, ended_s: float | None) -> None:
        """Count the request; `ended_s`: when its End came, if it came."""
        if self._source.spec.offline:
            return
        self.count_text(characters)
        metrics, listener = self._services.metrics, self._listener
        metrics.streams.labels(outcome, str(self.viable).lower(), *listener).inc()
        metrics.characters.labels(*listener).inc(characters)
        whole = self._source.fresh and self._source.text is None
        if ended_s is not None and self.account is not None and whole:
            rtf = (ended_s - self.accepted_s) / self.account.duration_s
            metrics.rtf.labels(self._source.spec.model.name).observe(rtf)

    def _learn(self, account: PlaybackAccount) -> None:
        """Learn what its first chunks needed, unless they waited for its text."""
        source, slack_s = self._source, account.min_slack_s
        if source.fresh and source.text is None and not source.rows and slack_s is not None:
            first_s, left_s = (source.spec.stretch * s for s in (account.first_chunk_s, slack_s))
            self._headroom.add(self._given_s, first_s, left_s)
            metrics, model = self._services.metrics, source.spec.model.name
            metrics.headroom.labels(model).set(self._headroom.seconds)

    def _first_sound(self, ttfp_s: float, grant: Grant, span: Span) -> None:
        self.ttfp_s = ttfp_s
        if self._source.fresh:
            late = ttfp_s > self._services.settings.ttfp_target_s
            self.busy = late and self._source.text is None  # or its writer may have been
            found = tracing.trace_id(span)
            exemplar = {"trace_id": found} if found else None
            ttfp = self._services.metrics.ttfp.labels("gateway", *self._listener)
            ttfp.observe(ttfp_s, exemplar)
            span.add_event("first audio", {"antiphon.ttfp_s": ttfp_s})
        grant.silence_ends()

    def _count(self, samples: int, arrival: Arrival, before_s: float) -> None:
        metrics, spec = self._services.metrics, self._source.spec
        metrics.chunks.labels(str(arrival.viable).lower(), *self._listener).inc()
        metrics.audio.labels(*self._listener).inc(samples / spec.sample_rate)
        self._use(seconds=samples / spec.sample_rate)
        if arrival.slack_s is not None:
            metrics.chunk("gateway", arrival.slack_s, before_s, spec.model.name)
        if arrival.underrun_s > 0:
            metrics.underrun.labels(*self._listener).inc(arrival.underrun_s)

    def _use(self, *, requests: int = 0, characters: int = 0, seconds: float = 0.0) -> None:
        """Count the use of its key; a job counts its portions when they are stored."""
        spec = self._source.spec
        if not spec.offline:
            self._services.usage.count(
                spec.tenant,
                spec.model.name,
                requests=requests,
                characters=characters,
                seconds=seconds,
            )

    async def _report(self, position_s: float) -> None:
        request_id = self._source.request_id
        await self._services.bus.link.send(
            subjects.playback(request_id), Playback(request_id, position_s)
        )


def breakdown(waited_s: float, spent: Sequence[Spent]) -> dict[str, float]:
    """Seconds by stage, of `waited_s` from a request's acceptance to its first audio here.

    `bus_s` is what no stage spent: the queue for a worker, and every hop over the broker. It is
    a difference of durations, so no two machines' clocks are compared.
    """
    if not spent:
        return {}
    found = {"bus_s": round(max(0.0, waited_s - sum(s.total_s for s in spent)), 6)}
    for one in spent:
        found[f"{one.stage}_s"] = round(one.total_s, 6)
        found[f"{one.stage}_engine_s"] = round(one.engine_s, 6)
    return found


def server_timing(found: Mapping[str, float]) -> str:
    """`breakdown` as a W3C Server-Timing header (milliseconds)."""
    return ", ".join(f"{name.removesuffix('_s')};dur={1e3 * s:.3f}" for name, s in found.items())
