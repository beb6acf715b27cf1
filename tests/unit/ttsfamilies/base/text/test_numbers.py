import pytest

from ttsfamilies.base.text import numbers


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("0", "zero"),
        ("000", "zero"),
        ("13", "thirteen"),
        ("40", "forty"),
        ("105", "one hundred five"),
        ("1,234,567", "one million two hundred thirty four thousand five hundred sixty seven"),
        ("1000000000", "one billion"),
        ("1" + "0" * 24, "one septillion"),
        ("9" * 28, " ".join(["nine"] * 28)),
    ],
)
def test_cardinals(text: str, spoken: str) -> None:
    assert " ".join(numbers.cardinal(text)) == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("1", "first"),
        ("12", "twelfth"),
        ("20", "twentieth"),
        ("22", "twenty second"),
        ("100", "one hundredth"),
        ("1005", "one thousand fifth"),
    ],
)
def test_ordinals(text: str, spoken: str) -> None:
    assert " ".join(numbers.ordinal(text)) == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("1066", "ten sixty six"),
        ("1900", "nineteen hundred"),
        ("1905", "nineteen oh five"),
        ("2000", "two thousand"),
        ("2009", "two thousand nine"),
        ("2024", "twenty twenty four"),
    ],
)
def test_years(text: str, spoken: str) -> None:
    assert " ".join(numbers.year(text)) == spoken


def test_decades_are_plural() -> None:
    assert numbers.decade("1990") == ["nineteen", "nineties"]
    assert numbers.decade("80") == ["eighties"]


def test_decimals_are_read_digit_by_digit_after_the_point() -> None:
    assert numbers.decimal("3.14") == ["three", "point", "one", "four"]
    assert numbers.decimal(".5") == ["point", "five"]


@pytest.mark.parametrize(
    ("top", "bottom", "spoken"),
    [
        ("1", "2", "one half"),
        ("3", "2", "three halves"),
        ("3", "4", "three quarters"),
        ("2", "3", "two thirds"),
        ("1", "0", "one over zero"),
    ],
)
def test_fractions(top: str, bottom: str, spoken: str) -> None:
    assert " ".join(numbers.fraction(top, bottom)) == spoken


def test_roman_numerals_are_recognised_only_when_well_formed() -> None:
    assert numbers.is_roman("MCMXCIV")
    assert numbers.roman("MCMXCIV") == 1994
    assert numbers.roman("XIV") == 14
    assert not numbers.is_roman("IIX")
    assert not numbers.is_roman("")
