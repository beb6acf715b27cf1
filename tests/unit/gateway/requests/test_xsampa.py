"""X-SAMPA becomes IPA."""

import pytest

from gateway.requests.pls import to_ipa


@pytest.mark.parametrize(
    ("written", "ipa"),
    [
        ('t@"meIt@U', "təˈmeɪtəʊ"),
        ("dZVmp", "dʒʌmp"),
        ("fA:D@", "fɑːðə"),
        ('b3`d "r\\Ed', "bɝd ˈɹɛd"),
        ("bVtn=", "bʌtn\u0329"),
        ("Tr\\i: {nd", "θɹiː ænd"),
        ("ta£d", ""),
        ("", ""),
    ],
)
def test_symbols_are_those_of_the_ipa(written: str, ipa: str) -> None:
    assert to_ipa(written) == ipa
