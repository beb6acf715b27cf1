"""What a deployment keeps at the broker."""

import re
from dataclasses import replace

from nats.js.api import DiscardPolicy, RetentionPolicy

from ttscommon.bus.layout import Layout, differences
from ttscommon.wire import subjects

THREE = Layout("acme", replicas=3)


def test_logs_keep_what_was_read_and_jobs_outlive_any_request() -> None:
    by_name = {stream.name: stream for stream in THREE.streams()}
    for log in subjects.LOGS:
        stream = by_name[f"acme-{log.stream}"]
        assert stream.retention == RetentionPolicy.LIMITS
        assert stream.allow_direct
        assert stream.num_replicas == 3
    assert (by_name["acme-TALK_JOBS"].max_age or 0) >= subjects.CODES.age_s


def test_what_requests_leave_behind_is_bounded_and_the_oldest_goes() -> None:
    """No key can fill it for others, nor the broker's disk."""
    by_name = {stream.name: stream for stream in THREE.streams()}
    for bucket in (subjects.SESSIONS, subjects.PASSING_DERIVED):
        stream = by_name[f"KV_acme-{bucket}"]
        assert 0 < (stream.max_bytes or 0) <= 256 << 20
        assert stream.discard == DiscardPolicy.OLD
    assert by_name[f"OBJ_acme-{subjects.RECORDINGS}"].discard == DiscardPolicy.NEW


def test_every_name_and_subject_carries_the_deployments_prefix() -> None:
    for stream in THREE.streams():
        assert re.match(r"(KV_|OBJ_)?acme-", stream.name or "")
        for subject in stream.subjects or []:
            assert subject.startswith(("acme.", "$KV.acme-", "$O.acme-"))
    consumer = THREE.consumer(subjects.TALKER, "m")
    assert (consumer.durable_name, consumer.filter_subject) == ("acme-talk-m", "acme.job.talk.m.*")


def test_what_differs_is_named() -> None:
    for wanted in THREE.streams():
        assert list(differences(wanted, wanted)) == []
        assert list(differences(wanted, replace(wanted, num_replicas=1))) == [
            "num_replicas 1 instead of 3"
        ]
        assert list(differences(wanted, replace(wanted, metadata=None))) == [
            "schema none instead of 5"
        ]
