"""What a deployment keeps at the broker."""

import re

from nats.js.api import DiscardPolicy

from ttscommon.bus.layout import JOB_AGE_S, Layout
from ttscommon.wire import subjects

THREE = Layout("acme", replicas=3)


def test_all_that_is_kept_has_its_copies_and_jobs_outlive_any_request() -> None:
    assert {stream.num_replicas for stream in THREE.streams()} == {3}
    assert max(log.age_s for log in subjects.LOGS) <= JOB_AGE_S


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
