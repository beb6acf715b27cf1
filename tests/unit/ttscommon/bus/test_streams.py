"""Streams that keep what recovery needs."""

from __future__ import annotations

from nats.js.api import RetentionPolicy

from ttscommon import subjects
from ttscommon.bus.streams import streams


def test_logs_keep_what_was_read_and_jobs_outlive_any_request() -> None:
    by_name = {stream.name: stream for stream in streams(replicas=3)}
    for log in subjects.LOGS:
        stream = by_name[log.stream]
        assert stream.retention == RetentionPolicy.LIMITS
        assert stream.allow_direct
        assert stream.num_replicas == 3
    assert (by_name[subjects.JOBS].max_age or 0) >= subjects.CODES.age_s
