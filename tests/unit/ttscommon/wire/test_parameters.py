"""Parameters of a family: what fits its schema passes, and what does not is told what would."""

from __future__ import annotations

import math

import pytest

from ttscommon.wire.errors import BadRequest
from ttscommon.wire.parameters import Parameter, Value, checked, completed

KNOWN = (
    Parameter("min_p", "number", 0.0, least=0.0, most=1.0),
    Parameter("steps", "integer", 10, least=1),
    Parameter("emotion", "choice", "calm", choices=("calm", "glad")),
    Parameter("clean", "switch", True),
)


def test_what_fits_passes_and_the_rest_has_its_default() -> None:
    given: dict[str, Value] = {"min_p": 1, "emotion": "glad"}
    assert checked(KNOWN, given) == {"min_p": 1.0, "emotion": "glad"}
    assert completed(KNOWN, given) == {
        "min_p": 1.0,
        "steps": 10,
        "emotion": "glad",
        "clean": True,
    }


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


def test_an_infinite_number_is_no_setting() -> None:
    with pytest.raises(BadRequest):
        Parameter("x", "number", 0.0).checked(math.inf)


def test_a_model_without_parameters_says_so() -> None:
    with pytest.raises(BadRequest, match="it takes none"):
        checked((), {"min_p": 0.1})
