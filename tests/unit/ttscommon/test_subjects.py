"""Subjects: one token a name, and streams that keep what recovery needs."""

from __future__ import annotations

import pytest
from nats.js.api import RetentionPolicy

from ttscommon import subjects
from ttscommon.errors import BadRequest


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "ä", "a\n"])
def test_a_name_that_would_change_a_subjects_meaning_is_refused(name: str) -> None:
    with pytest.raises(BadRequest):
        subjects.token(name)
    with pytest.raises(BadRequest):
        subjects.CODES.subject(name)


def test_the_live_copy_of_a_log_is_never_captured_by_its_stream() -> None:
    for log in subjects.LOGS:
        assert log.live("r") == f"live.{log.subject('r')}"
        assert not log.live("r").startswith(f"{log.prefix}.")


def test_logs_keep_what_was_read_and_jobs_outlive_any_request() -> None:
    by_name = {stream.name: stream for stream in subjects.streams(replicas=3)}
    for log in subjects.LOGS:
        stream = by_name[log.stream]
        assert stream.retention == RetentionPolicy.LIMITS
        assert stream.allow_direct
        assert stream.num_replicas == 3
    assert (by_name[subjects.JOBS].max_age or 0) >= subjects.CODES.age_s
