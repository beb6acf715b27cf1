import pytest

from ttsfamilies.base.text.cleanup import clean


@pytest.mark.parametrize(
    ("token", "cleaned"),
    [
        ("it’s", "it's"),
        ("“quoted”", '"quoted"'),
        ("naïve", "naive"),
        ("Łódź", "Lodz"),
        ("Straße", "Strasse"),
        ("Москва", "Moskva"),
        ("3½", "3 1/2"),
        ("H₂O", "H2O"),
        ("𝐁𝐨𝐥𝐝", "Bold"),
        ("π", "pi"),
        ("٣", "3"),
        ("ok👍", "ok"),
        ("你好", ""),
        ("\u200bzero\u200dwidth", "zerowidth"),
        ("bell\x07", "bell"),
    ],
)
def test_reduces_to_ascii(token: str, cleaned: str) -> None:
    assert clean(token) == cleaned
