"""The broker's streams, buckets and consumers for one deployment, and their ages. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from ttscommon.process.startup import VERSION
from ttscommon.wire import subjects
from ttscommon.wire.subjects import ACK_WAIT_S, LOGS, STAGES, TALKER, VOCODER, Log, Stage

# Raised whenever an older service could not work with what a newer one expects here: it takes
# everything else that a newer release has changed as it is.
SCHEMA: Final = "5"
SCHEMA_KEY: Final = "antiphon-schema"
RELEASE_KEY: Final = "antiphon-release"
_METADATA: Final = {SCHEMA_KEY: SCHEMA, RELEASE_KEY: VERSION}
_SLOTS_KEY: Final = "antiphon-slots"

JOB_AGE_S: Final = 3600.0
DEDUPE_S: Final = 120.0
LOG_MESSAGES_PER_REQUEST: Final = 4096
# A stage's queue holds the jobs that run and as many that wait, and those that are parked; more are
# refused.
JOBS_PER_SLOT: Final = 2
# A talker's job carries the text. Only talkers read it.
_JOB_BYTES: Final = {TALKER.name: 32 << 10, VOCODER.name: 4 << 10}
_LEAST_QUEUE_BYTES: Final = 4 << 20
# The workers of a stage are one group, in which the least loaded is served first.
WORKERS: Final = "workers"
# A book has so long to be spoken and fetched.
_BOOKS_AGE_S: Final = 30 * 86_400.0
# None: for ever.
BUCKET_AGE_S: Final[dict[str, float | None]] = {
    subjects.REPLICAS: 6.0,
    subjects.LEASES: JOB_AGE_S,
    subjects.TOMBSTONES: 600.0,
    subjects.VOICES: None,
    subjects.DERIVED: None,
    subjects.LEXICONS: None,
    subjects.ADAPTERS: None,
    subjects.PASSING_DERIVED: 3600.0,
    subjects.BOOKS: _BOOKS_AGE_S,
    subjects.SESSIONS: 7200.0,
    subjects.USAGE: 400 * 86_400.0,
}
# What a bucket's records may take together, where that is bounded.
BUCKET_BYTES: Final[dict[str, int]] = {
    subjects.BOOKS: 64 << 20,
    subjects.SESSIONS: 64 << 20,
    subjects.PASSING_DERIVED: 256 << 20,
    subjects.USAGE: 64 << 20,
}
# Full ones of these drop their oldest record for a new one, and refuse none.
_PASSING: Final = frozenset(
    {subjects.SESSIONS, subjects.PASSING_DERIVED, subjects.PASSING_RECORDINGS}
)
# How long an object lives, and how much all of them may take, as a share of a log's bytes.
OBJECTS: Final[dict[str, tuple[float | None, float]]] = {
    subjects.RECORDINGS: (None, 1.0),
    subjects.PASSING_RECORDINGS: (3600.0, 0.5),
    subjects.BOOK_PARTS: (_BOOKS_AGE_S, 1.0),
}
# Nothing can be renewed while three brokers elect a leader, and no worker is dead for that.
_ELECTION_S: Final = 9.0

# What a deployment relies on.
_CHECKED: Final = (
    "subjects",
    "retention",
    "discard",
    "max_age",
    "max_msgs",
    "max_bytes",
    "max_msgs_per_subject",
    "duplicate_window",
    "allow_direct",
    "num_replicas",
)


def kept_streams(prefix: str) -> list[str]:
    """Streams whose records stay until they are removed; records of voices before recordings."""
    buckets = [f"KV_{prefix}-{name}" for name, age_s in BUCKET_AGE_S.items() if age_s is None]
    stores = [f"OBJ_{prefix}-{name}" for name, (age_s, _) in OBJECTS.items() if age_s is None]
    return [*buckets, *stores]


@dataclass
class WorkersConsumer(ConsumerConfig):
    """A consumer whose pulls name a group and a priority; the client library has no words for it.

    Of the pulls that wait, the one of the lowest number gets the next message (ADR-42).
    """

    priority_groups: list[str] | None = None
    priority_policy: str | None = None


@dataclass(frozen=True)
class Layout:
    """The deployment called `prefix`, with so many copies of everything, and so much for a log.

    `slots`: streams that its workers may hold at once.
    """

    prefix: str
    replicas: int = 1
    max_log_bytes: int = 2 << 30
    slots: int = 4096

    def streams(self) -> list[StreamConfig]:
        """Every stream, buckets included."""
        logs = [self._log(log) for log in LOGS]
        buckets = [*map(self._bucket, BUCKET_AGE_S), *map(self._objects, OBJECTS)]
        return [*map(self._jobs, STAGES.values()), *logs, *buckets]

    def consumer(self, stage: Stage, model: str) -> WorkersConsumer:
        """The one durable pull consumer that all replicas of a stage share for a model."""
        name = self._name(stage.durable(model))
        return WorkersConsumer(
            name=name,  # said twice, it and the filter stand in the subject that creates it
            durable_name=name,
            filter_subject=self._subject(stage.jobs(model)),
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_deliver=-1,
            max_ack_pending=20_000,
            max_waiting=2048,
            priority_groups=[WORKERS],
            priority_policy="prioritized",
        )

    def _name(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def _subject(self, subject: str) -> str:
        return f"{self.prefix}.{subject}"

    def _jobs(self, stage: Stage) -> StreamConfig:
        jobs = (JOBS_PER_SLOT + stage.parked_per_slot) * self.slots
        return self._stream(
            self._name(stage.stream),
            self._subject(stage.all_jobs),
            retention=RetentionPolicy.WORK_QUEUE,
            max_age=JOB_AGE_S,
            max_msgs=jobs,
            max_bytes=max(_LEAST_QUEUE_BYTES, jobs * _JOB_BYTES[stage.name]),
            discard=DiscardPolicy.NEW,
            metadata={**_METADATA, _SLOTS_KEY: str(self.slots)},
        )

    def _log(self, log: Log) -> StreamConfig:
        return self._stream(
            self._name(log.stream),
            self._subject(f"{log.prefix}.*"),
            max_age=log.age_s,
            max_msgs_per_subject=LOG_MESSAGES_PER_REQUEST,
            max_bytes=self.max_log_bytes,
            # A full store drops the oldest audio, which has been heard, rather than refuse the
            # newest.
            discard=DiscardPolicy.OLD,
        )

    def _bucket(self, bucket: str) -> StreamConfig:
        """As every client of NATS would make a key-value bucket, with one revision a key."""
        age_s = BUCKET_AGE_S[bucket]
        if age_s is not None and self.replicas > 1:
            age_s += _ELECTION_S
        name = self._name(bucket)
        return self._stream(
            f"KV_{name}",
            f"$KV.{name}.>",
            max_age=age_s or 0.0,
            max_bytes=BUCKET_BYTES.get(bucket),
            max_msgs_per_subject=1,
            discard=DiscardPolicy.OLD if bucket in _PASSING else DiscardPolicy.NEW,
            allow_rollup_hdrs=True,
            deny_delete=True,
            duplicate_window=min(DEDUPE_S, age_s or DEDUPE_S),
        )

    def _objects(self, bucket: str) -> StreamConfig:
        """As every client of NATS would make an object store."""
        age_s, share = OBJECTS[bucket]
        name = self._name(bucket)
        return self._stream(
            f"OBJ_{name}",
            *(f"$O.{name}.C.>", f"$O.{name}.M.>"),
            max_age=age_s or 0.0,
            max_bytes=round(share * self.max_log_bytes),
            discard=DiscardPolicy.OLD if bucket in _PASSING else DiscardPolicy.NEW,
            allow_rollup_hdrs=True,
        )

    def _stream(self, name: str, *subjects: str, **figures: Any) -> StreamConfig:
        common = {
            "retention": RetentionPolicy.LIMITS,
            "storage": StorageType.FILE,
            "num_replicas": self.replicas,
            "allow_direct": True,
            "duplicate_window": DEDUPE_S,
            "metadata": _METADATA,
        }
        return StreamConfig(name=name, subjects=list(subjects), **{**common, **figures})


def slots_of(jobs: StreamConfig) -> int:
    """For how many slots the talkers' queue was made; one of an earlier version does not say."""
    told = (jobs.metadata or {}).get(_SLOTS_KEY, "")
    return int(told) if told.isdigit() else (jobs.max_msgs or 0) // JOBS_PER_SLOT


def is_of_newer_release(found: StreamConfig) -> bool:
    """Whether a release behind this one made or changed a stream, and this one can work with it."""
    metadata, ours = found.metadata or {}, _numbers(VERSION)
    newer = bool(ours) and _numbers(metadata.get(RELEASE_KEY, "")) > ours
    return newer and metadata.get(SCHEMA_KEY) == SCHEMA


def _numbers(release: str) -> tuple[int, ...]:
    """Those of a version; none where it is not made of numbers alone."""
    parts = release.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()


def differences(wanted: StreamConfig, found: StreamConfig) -> Iterator[str]:
    """What of a stream is not as wanted, in words."""
    schema = (found.metadata or {}).get(SCHEMA_KEY, "none")
    if schema != SCHEMA:
        yield f"schema {schema} instead of {SCHEMA}"
    for name in _CHECKED:
        want, have = getattr(wanted, name), getattr(found, name)
        if _differs(want, have):
            yield f"{name} {_plain(have)} instead of {_plain(want)}"


def _differs(want: Any, have: Any) -> bool:
    if isinstance(want, float) and isinstance(have, int | float):
        return abs(want - have) > 1e-6
    return bool(want != have) and not (want is None and have == -1)


def _plain(value: Any) -> str:
    return str(getattr(value, "value", value))
