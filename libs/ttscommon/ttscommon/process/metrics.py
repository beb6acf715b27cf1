"""Every metric of every service, declared once; dashboards and the bench read these names.

Which labels they carry, and how many series that makes: docs/decisions/rate-limits.md.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from typing import Final, Generic, Literal, TypeAlias, TypeVar, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics import MetricWrapperBase

from ttscommon.process.startup import VERSION, Startup

_LATENCY_S: Final = (
    0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0,
)  # fmt: skip
_SLACK_S: Final = (-1.0, -0.1, 0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_STEP_S: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.5)
_ACCEPTED: Final = (0, 1, 2, 3, 4, 5, 6, 8)
_BATCH: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_RTF: Final = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2, 2.0)

RequestOutcome: TypeAlias = Literal["ok", "cancelled", "error", "runaway", "refused", "detached"]
"""How a request ended at a gateway that admitted it. Refused: after all, for want of room; it
counts in `tts_refused_total` too.
"""
MOST_TENANTS: Final = 100
_OTHERS: Final = "other"
# Longer than any request.
_SILENT_S: Final = 3600.0
_REASONS: Final = ("overloaded", "unavailable")
_ENDS: Final = ("done", "failed")
_PORTIONS: Final = ("made", "gave_way", "failed")
_YES_NO: Final = ("true", "false")
# A stream's first chunks are small and follow each other closely, however idle the engines are:
# what a listener has in hand says something about load behind them.
_OPENING_S: Final = 1.0
_TIGHT_S: Final = 0.2
_IN_HAND: Final = ("ample", "tight", "none")

M = TypeVar("M", bound=MetricWrapperBase)


class MetricFamily(Generic[M]):
    """A metric whose last labels are the same in the whole process."""

    def __init__(self, metric: M, common: tuple[str, ...]) -> None:
        self._metric = metric
        self._common = common
        self._series: dict[tuple[str, ...], M] = {}

    def labels(self, *values: str) -> M:
        """The series with `values` for the labels that differ."""
        if (known := self._series.get(values)) is None:
            every = (*values, *self._common)
            known = self._series[values] = self._metric.labels(*every) if every else self._metric
        return known

    def remove(self, *values: str) -> None:
        """Export the series with `values` no longer; raises KeyError if there is none."""
        self._metric.remove(*values, *self._common)
        self._series.pop(values, None)

    def forget(self, **labels: str) -> None:
        """Export no series that carries these labels any more."""
        if labels.keys() <= set(self._metric._labelnames):
            self._metric.remove_by_labels(labels)
            self._series.clear()


class TenantLabels:
    """Names for the label `tenant`: those of `most` tenants that speak, then one for the rest.

    Keys can be many, and each makes series. One that was silent for an hour gives its name to the
    next that speaks.
    """

    def __init__(
        self, most: int = MOST_TENANTS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._clock = clock
        self._seen_s: dict[str, float] = {}

    def of(self, tenant: str) -> tuple[str, str | None]:
        """The name of `tenant`, and the tenant that lost its own for it, if any."""
        lost = None
        if tenant not in self._seen_s and len(self._seen_s) >= self._most:
            lost = min(self._seen_s, key=self._seen_s.__getitem__)
            if self._clock() - self._seen_s[lost] < _SILENT_S:
                return _OTHERS, None
            del self._seen_s[lost]
        self._seen_s[tenant] = self._clock()
        return tenant, lost


def _in_hand(slack_s: float) -> str:
    if slack_s <= 0:
        return "none"
    return "tight" if slack_s < _TIGHT_S else "ample"


class Metrics:
    """The metrics of an engine's process, in a registry of its own so that tests share no counts.

    `model` is what the process serves; every series says so.
    """

    def __init__(self, model: str = "") -> None:
        self.registry = CollectorRegistry()
        self._common = {"model": model} if model else {}
        self.ttfp = self._histogram(
            "tts_ttfp_seconds",
            "Request accepted to first audio handed to the client (stages: job to first chunk).",
            ("stage", *self._of_listeners),
            _LATENCY_S,
        )
        self.slack = self._histogram(
            "tts_playback_slack_seconds",
            "Playback left at the listener when a chunk is sent.",
            ("stage", *self._of_listeners[:1]),
            _SLACK_S,
        )
        self.steady = self._counter(
            "tts_steady_chunks",
            "Chunks behind a stream's first second, by what its listener had in hand: 0.2 s or "
            "more (ample), less (tight), or none. A stage counts those it got in good time.",
            ("in_hand", "stage", *self._of_listeners[:1]),
        )
        self.active = self._gauge(
            "tts_active_streams", "Streams in work.", ("stage", *self._of_listeners)
        )
        self.bus_up = self._gauge("tts_bus_up", "Whether the broker is connected (1 or 0).")
        self.store_up = self._gauge(
            "tts_store_up", "Whether the broker stores what it is told to (1 or 0)."
        )
        # Memory, processor time, open files, and since when it runs.
        ProcessCollector(registry=self.registry)
        build = self._gauge("tts_build_info", "1; the label says which version.", ("version",))
        build.labels(VERSION).set(1)
        started = self._gauge(
            "tts_startup_seconds",
            "From the process's beginning until it took work, by what that was spent on.",
            ("stage", "part"),
        )
        waited = self._gauge(
            "tts_startup_waited_seconds",
            "How much of its start the process waited for a processor that others had.",
            ("stage",),
        )
        self.startup = Startup(
            lambda stage, part, s: started.labels(stage, part).set(s),
            tell_waited=lambda stage, s: waited.labels(stage).set(s),
        )
        self._declare()

    def chunk(
        self, stage: str, slack_s: float, before_s: float, *model: str, given_s: float = math.inf
    ) -> None:
        """A chunk left when the listener had `slack_s` in hand, `before_s` behind its first one.

        `given_s`: what was in hand when the stage got what the chunk is made of. A chunk that was
        late by then says nothing about the stage.
        """
        self.slack.labels(stage, *model).observe(slack_s)
        if before_s >= _OPENING_S and given_s >= _TIGHT_S:
            self.steady.labels(_in_hand(slack_s), stage, *model).inc()

    def steady_from_zero(self, stage: str, *model: str) -> None:
        """Export the counts of `chunk` before there is anything to count."""
        for in_hand in _IN_HAND:
            self.steady.labels(in_hand, stage, *model)

    @property
    def _of_listeners(self) -> tuple[str, ...]:
        """Labels of metrics that a gateway counts by request."""
        return ()

    def _declare(self) -> None:
        self.slots = self._gauge("tts_slots", "Streams that an engine takes at once.", ("stage",))
        self.parked = self._gauge(
            "tts_parked_streams",
            "Streams that wait without a slot for more text, or until their listeners take more.",
            ("stage",),
        )
        self.queue_jobs = self._gauge(
            "tts_queue_jobs", "Jobs of the stage that no worker has taken.", ("stage",)
        )
        self.queue_wait = self._histogram(
            "tts_queue_wait_seconds", "Job published to job started.", ("stage",), _LATENCY_S
        )
        self.stage_duration = self._histogram(
            "tts_stage_duration_seconds",
            "One engine step, from its launch, or the end of the step before, to its results.",
            ("stage",),
            _STEP_S,
        )
        self.batch = self._histogram(
            "tts_batch_size", "Streams in one engine step.", ("stage",), _BATCH
        )
        self.accepted = self._histogram(
            "tts_accepted_frames",
            "Frames that one step gained a stream, by the width it tried.",
            ("width",),
            _ACCEPTED,
        )
        self.kv_blocks = self._gauge("tts_kv_blocks", "KV-cache blocks by state.", ("state",))
        self.positions = self._counter(
            "tts_positions", "Positions a talker computed: of prompts or of steps.", ("kind",)
        )
        self.shared_positions = self._counter(
            "tts_shared_positions", "Positions of prompts that were there from earlier requests."
        )
        self.prefixes = self._counter(
            "tts_prefixes",
            "Prompts that may begin like others, by whether any of it was found.",
            ("found",),
        )
        self.prefix_blocks = self._gauge(
            "tts_prefix_blocks", "Free KV-cache blocks that are kept for prompts that begin alike."
        )
        self.launches = self._counter(
            "tts_launches",
            "Parts of engine steps, by how they were computed (graph or eager).",
            ("stage", "path"),
        )
        self.evictions = self._counter(
            "tts_evictions", "Times that a stream gave its KV blocks to a more urgent one."
        )
        self.state_bytes = self._gauge(
            "tts_codec_state_bytes",
            "What states of a codec that grow with their streams take, and may take (limit).",
            ("state",),
        )
        self.recomputations = self._counter(
            "tts_codec_recomputations",
            "Windows of such streams that were computed from their passage's beginning, for "
            "want of memory.",
        )
        self.runaways = self._counter(
            "tts_runaways",
            "Utterances that lost their text, by what showed it and by what came of it: frames "
            "were drawn again, or the rest was left.",
            ("sign", "came"),
        )
        self.model_bytes = self._gauge(
            "tts_model_bytes",
            "Memory of the model's weights and caches, where a process serves several; 0 while it "
            "is not loaded.",
            ("stage",),
        )
        self.model_loads = self._counter(
            "tts_model_loads", "Times that the model was loaded, likewise.", ("stage",)
        )
        self.model_crashes = self._counter(
            "tts_model_crashes",
            "Times that the model's engine died, likewise; other models went on.",
            ("stage",),
        )
        self.adapters = self._gauge("tts_adapters", "Adapters that a talker holds.")
        self.adapter_bytes = self._gauge("tts_adapter_bytes", "Bytes that they take together.")
        self.adapter_load = self._histogram(
            "tts_adapter_load_seconds",
            "An adapter was asked for and not held: until it is.",
            (),
            _LATENCY_S,
        )
        self.adapter_unloads = self._counter(
            "tts_adapter_unloads", "Adapters that made room for others."
        )
        self.recoveries = self._counter(
            "tts_recoveries", "Requests taken over from another worker.", ("stage",)
        )
        self.cancel_latency = self._histogram(
            "tts_cancel_latency_seconds", "Cancel received to slot free.", ("stage",), _LATENCY_S
        )

    def _names(self, own: tuple[str, ...]) -> tuple[str, ...]:
        return (*own, *self._common)

    def _histogram(
        self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> MetricFamily[Histogram]:
        registry = self.registry
        made = Histogram(name, text, self._names(labels), buckets=buckets, registry=registry)
        return MetricFamily(made, tuple(self._common.values()))

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> MetricFamily[Counter]:
        made = Counter(name, text, self._names(labels), registry=self.registry)
        return MetricFamily(made, tuple(self._common.values()))

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> MetricFamily[Gauge]:
        made = Gauge(name, text, self._names(labels), registry=self.registry)
        return MetricFamily(made, tuple(self._common.values()))


class GatewayMetrics(Metrics):
    """The metrics of a gateway: what listeners of each model and tenant hear."""

    def __init__(
        self, most_tenants: int = MOST_TENANTS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_tenants = most_tenants
        self._tenants = TenantLabels(most_tenants, clock)
        self._seen: set[tuple[str, str]] = set()
        super().__init__()

    def listener(self, model: str, tenant: str) -> tuple[str, str]:
        """The labels of a request. Its counters start at 0 when the two are first seen.

        A counter that appears with its first event has not increased, for Prometheus.
        """
        name, lost = self._tenants.of(tenant)
        if lost is not None:
            self._forget(lost)
        labels = (model, name)
        if labels not in self._seen:
            self._seen.add(labels)
            for yes_no in _YES_NO:
                self.chunks.labels(yes_no, *labels)
            for outcome in get_args(RequestOutcome):
                self.streams.labels(outcome, "true", *labels)
            for reason in _REASONS:
                self.refused.labels(reason, *labels)
            for counter in (self.underrun, self.characters, self.audio, self.book_audio):
                counter.labels(*labels)
            for state in _ENDS:
                self.books.labels(state, name)
            for outcome in _PORTIONS:
                self.book_portions.labels(outcome, model)
            self.steady_from_zero("gateway", model)
        return labels

    def expect(self, model: str, tenants: Collection[str]) -> None:
        """Count these from 0 at once. Where they are too many, those that speak have names."""
        if len(tenants) <= self._most_tenants:
            for tenant in tenants:
                self.listener(model, tenant)

    def _forget(self, tenant: str) -> None:
        self._seen = {labels for labels in self._seen if labels[1] != tenant}
        for family in vars(self).values():
            if isinstance(family, MetricFamily):
                family.forget(tenant=tenant)

    @property
    def _of_listeners(self) -> tuple[str, ...]:
        return ("model", "tenant")

    def _declare(self) -> None:
        self.chunks = self._counter(
            "tts_stream_chunks",
            "Audio chunks sent, by whether each came in time for playback.",
            ("viable", "model", "tenant"),
        )
        self.streams = self._counter(
            "tts_streams",
            "Requests ended, by outcome and by whether playback never ran dry.",
            ("outcome", "viable", "model", "tenant"),
        )
        self.underrun = self._counter(
            "tts_underrun_seconds",
            "Silence a listener heard because audio came late.",
            ("model", "tenant"),
        )
        self.characters = self._counter(
            "tts_characters", "Characters of text that was spoken.", ("model", "tenant")
        )
        self.audio = self._counter(
            "tts_audio_seconds", "Audio handed to clients.", ("model", "tenant")
        )
        self.rtf = self._histogram(
            "tts_rtf_ratio",
            "Time to produce a request's audio over its duration.",
            ("model",),
            _RTF,
        )
        self.refused = self._counter(
            "tts_refused", "Requests refused, by reason.", ("reason", "model", "tenant")
        )
        self.limit = self._gauge(
            "tts_stream_limit", "Streams that are let in, at all gateways together.", ("model",)
        )
        self.silent = self._gauge(
            "tts_silent_streams", "Streams that wait for a first sound, likewise.", ("model",)
        )
        self.least_slack = self._gauge(
            "tts_least_slack_seconds",
            "Least playback that a listener has left, likewise; NaN where there is none.",
            ("model",),
        )
        self.headroom = self._gauge(
            "tts_headroom_seconds", "What first chunks have more, so that none is late.", ("model",)
        )
        self.capacity = self._gauge(
            "tts_capacity_streams",
            "Streams that a stage's workers keep up with: slots, or less where steps are slow.",
            ("stage", "model"),
        )
        self.books = self._counter(
            "tts_books", "Jobs ended, by what became of them.", ("state", "tenant")
        )
        self.book_portions = self._counter(
            "tts_book_portions",
            "Portions of jobs that were stored (made), gave their slots to listeners, or failed.",
            ("outcome", "model"),
        )
        self.book_audio = self._counter(
            "tts_book_audio_seconds", "Sound of jobs that was stored.", ("model", "tenant")
        )
        self.books_held = self._gauge("tts_books_held", "Jobs that this gateway speaks.")
        self.offline = self._gauge(
            "tts_offline_streams", "Streams of jobs, which no listener hears.", ("model",)
        )
        self.leases = self._gauge(
            "tts_leases", "Jobs held by workers, as the elected gateway knows them."
        )
