"""What the reaper writes for a worker that is to have a job directly."""

import pytest

from ttscommon.cluster.leases import Lease
from ttscommon.wire.epochs import FULL, TAKEN, HandOver
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import SpeechRequest

OFFER = HandOver(
    SpeechRequest("r", "m", "v", "hello", seed=7),
    epoch=5,
    receipt="$JS.ACK.jobs",
    sequence=3,
    deaths=1,
    bounces=2,
    failures=4,
    trace={"traceparent": "00-1-2-01"},
)


def test_a_job_that_is_handed_over_arrives_as_it_was() -> None:
    assert HandOver.decode(OFFER.encode()) == OFFER


def test_the_lease_it_brings_knows_the_jobs_past_and_has_no_holder() -> None:
    expected = Lease("", "talker", "r", 5, "$JS.ACK.jobs", deaths=1, bounces=2, failures=4)
    assert Lease.handed(OFFER, "talker") == expected
    assert not Lease.handed(OFFER, "talker").held


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", OFFER.encode()[:-1], b'{"epoch":1}'])
def test_what_is_no_handover_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        HandOver.decode(data)


def test_a_worker_answers_in_one_letter() -> None:
    assert (TAKEN, FULL) == (b"+", b"-")
