"""Rates of elements that are open."""

import pytest

from gateway.requests.tempo import Tempo, rate_of


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("slow", 0.75), (" X-FAST ", 1.6), ("medium", 1.0), ("80%", 0.8), ("1.5", 1.5),
        ("+20%", 1.2), ("-20%", 0.8), ("900%", 4.0), ("0%", 0.25), ("-200%", 0.25),
        ("quick", None), ("", None), ("1e5", None),
    ],
)  # fmt: skip
def test_rates_are_read(written: str, rate: float | None) -> None:
    assert rate_of(written) == rate


def test_a_closing_tag_ends_what_was_left_open_within() -> None:
    tempo = Tempo()
    tempo.take("prosody", "<prosody>", {"rate": "slow"})
    tempo.take("emphasis", "<emphasis>", {})
    assert tempo.rate == pytest.approx(0.75 * 0.87)
    tempo.take("emphasis", "</emphasis>", {})
    tempo.take("emphasis", "</emphasis>", {})
    assert tempo.rate == 0.75
    tempo.take("emphasis", "<emphasis>", {})
    tempo.take("prosody", "</prosody>", {})
    assert tempo.rate == 1.0


def test_elements_that_nest_without_end_are_not_counted() -> None:
    tempo = Tempo()
    for _ in range(1000):
        tempo.take("prosody", "<prosody>", {"rate": "99%"})
    assert tempo.rate == pytest.approx(0.99**16)
    tempo.take("prosody", "<prosody/>", {"rate": "slow"})
    assert tempo.rate == pytest.approx(0.99**16)
