"""Parameters of a family: what fits its schema passes, and what does not is told what would."""

import math

import pytest

from ttscommon.wire.errors import BadRequest, UnknownVoice
from ttscommon.wire.parameters import Parameter, Value, checked, completed, parse

KNOWN = (
    Parameter("min_p", "number", 0.0, least=0.0, most=1.0),
    Parameter("steps", "integer", 10, least=1),
    Parameter("emotion", "choice", "calm", choices=("calm", "glad")),
    Parameter("clean", "switch", True),
)


def test_what_fits_passes_and_the_rest_has_its_default() -> None:
    given: dict[str, Value] = {"min_p": 1, "emotion": "glad"}
    assert checked(KNOWN, given) == {"min_p": 1.0, "emotion": "glad"}
    all_ = {"min_p": 1.0, "steps": 10, "emotion": "glad", "clean": True}
    assert completed(KNOWN, given) == all_


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("min_p", 1.5, "min_p is a number from 0 to 1"),
        ("min_p", math.nan, "a number from 0 to 1"),
        ("min_p", True, "a number from 0 to 1"),
        ("steps", 0, "a whole number of 1 or more"),
        ("steps", 2.0, "a whole number"),
        ("emotion", "sad", "one of calm, glad"),
        ("emotion", True, "one of calm, glad"),
        ("clean", 1, "true or false"),
        ("guidance", 3.0, "it takes min_p, steps, emotion, clean"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(name: str, value: Value, wanted: str) -> None:
    with pytest.raises(BadRequest, match=wanted) as refused:
        checked(KNOWN, {name: value})
    assert refused.value.param == f"extra_params.{name}"


def test_an_infinite_number_is_no_setting_and_a_model_without_parameters_says_so() -> None:
    with pytest.raises(BadRequest):
        Parameter("x", "number", 0.0).checked(math.inf)
    with pytest.raises(BadRequest, match="it takes none"):
        checked((), {"min_p": 0.1})


VOICES = ("af_bella", "af_heart", "af_sky")


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
    assert dict(parse(voice, VOICES)) == pytest.approx(shares)


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
        parse(voice, VOICES)
    assert refused.value.param == "voice"
