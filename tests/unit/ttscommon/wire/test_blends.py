"""Blends are read as clients write them, and refused by name."""

from __future__ import annotations

import pytest

from ttscommon.wire.blends import parse
from ttscommon.wire.errors import UnknownVoice

KNOWN = ("af_bella", "af_heart", "af_sky")


@pytest.mark.parametrize(
    ("voice", "shares"),
    [
        ("af_sky", {"af_sky": 1.0}),
        ("af_heart*0.6+af_sky*0.4", {"af_heart": 0.6, "af_sky": 0.4}),
        ("0.6*af_heart + 0.4*af_sky", {"af_heart": 0.6, "af_sky": 0.4}),
        ("af_bella(2)+af_sky(1)", {"af_bella": 2 / 3, "af_sky": 1 / 3}),
        ("af_bella + af_sky", {"af_bella": 0.5, "af_sky": 0.5}),
        ("af_bella,af_sky", {"af_bella": 0.5, "af_sky": 0.5}),
        ("af_sky+af_sky*3+af_heart*0", {"af_sky": 1.0, "af_heart": 0.0}),
    ],
)
def test_weights_become_shares(voice: str, shares: dict[str, float]) -> None:
    assert dict(parse(voice, KNOWN)) == pytest.approx(shares)


@pytest.mark.parametrize(
    ("voice", "said"),
    [
        ("", "neither a voice nor a blend"),
        ("af_sky+", "neither a voice nor a blend"),
        ("af_sky*", "neither a voice nor a blend"),
        ("af_sky*-1", "neither a voice nor a blend"),
        ("af_sky(1", "neither a voice nor a blend"),
        ("af_sky*1e9", "neither a voice nor a blend"),
        ("af_sky*nan", "neither a voice nor a blend"),
        ("af_sky*0", "sum to 0"),
        ("af_sky+am_adam", "no voice 'am_adam'; try af_bella"),
        ("+".join(["af_sky"] * 9), "at most 8"),
    ],
)
def test_what_is_no_blend_is_refused(voice: str, said: str) -> None:
    with pytest.raises(UnknownVoice, match=said) as refused:
        parse(voice, KNOWN)
    assert refused.value.param == "voice"
