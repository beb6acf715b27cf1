"""The streams and consumers of JetStream: what the broker keeps, how much of it, and how long."""

from __future__ import annotations

from typing import Final

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from ttscommon.subjects import ACK_WAIT_S, JOBS, LOGS, Log, Stage

JOB_AGE_S: Final = 3600.0
DEDUPE_S: Final = 120.0
LOG_MESSAGES_PER_REQUEST: Final = 4096


def streams(replicas: int = 1, max_bytes: int = 1 << 31) -> list[StreamConfig]:
    """The JetStream streams, for `replicas` copies of everything."""
    jobs = StreamConfig(
        name=JOBS,
        subjects=["job.>"],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        num_replicas=replicas,
        max_age=JOB_AGE_S,
        max_msgs=4000,
        max_bytes=1 << 28,
        discard=DiscardPolicy.NEW,
        duplicate_window=DEDUPE_S,
    )
    return [jobs, *(_log_stream(log, replicas, max_bytes) for log in LOGS)]


def _log_stream(log: Log, replicas: int, max_bytes: int) -> StreamConfig:
    return StreamConfig(
        name=log.stream,
        subjects=[f"{log.prefix}.*"],
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        num_replicas=replicas,
        max_age=log.age_s,
        max_msgs_per_subject=LOG_MESSAGES_PER_REQUEST,
        max_bytes=max_bytes,
        # A full store drops the oldest audio, which has been heard, rather than refuse the newest.
        discard=DiscardPolicy.OLD,
        allow_direct=True,
        duplicate_window=DEDUPE_S,
    )


def consumer(stage: Stage, model: str) -> ConsumerConfig:
    """The one durable pull consumer that all replicas of a stage share for a model."""
    return ConsumerConfig(
        durable_name=stage.durable(model),
        filter_subject=stage.jobs(model),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ACK_WAIT_S,
        max_deliver=-1,
        max_ack_pending=20_000,
        max_waiting=2048,
    )
