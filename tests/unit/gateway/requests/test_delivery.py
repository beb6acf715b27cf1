import pytest

from gateway.requests.delivery import breakdown, server_timing
from ttscommon.wire.messages import Spent

SPENT = (Spent("talker", 0.020, 0.018), Spent("vocoder", 0.010, 0.009))


def test_what_no_stage_spent_was_spent_on_the_way() -> None:
    found = breakdown(0.035, SPENT)
    assert found["bus_s"] == pytest.approx(0.005)
    assert found["talker_s"] == pytest.approx(0.020)
    assert found["vocoder_engine_s"] == pytest.approx(0.009)
    assert breakdown(0.025, SPENT)["bus_s"] == 0.0  # stages overlapped
    assert breakdown(0.035, ()) == {}  # it was resumed


def test_the_header_is_in_milliseconds() -> None:
    assert server_timing({"bus_s": 0.005, "talker_s": 0.02}) == "bus;dur=5.000, talker;dur=20.000"
