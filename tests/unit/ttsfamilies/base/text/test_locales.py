import pytest

from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.rules import british


@pytest.mark.parametrize("language", ["en-GB", "en-gb", "en_GB", "en-AU", "en-IN", "en-IE"])
def test_these_put_the_day_first(language: str) -> None:
    assert british(language)


@pytest.mark.parametrize("language", ["en", "en-US", "en-CA", "", "de-DE", "gb"])
def test_all_others_are_read_as_in_the_united_states(language: str) -> None:
    assert not british(language)


def test_the_frontend_reads_a_date_by_its_locale(frontend: EnglishFrontend) -> None:
    american, other = (frontend.phones("3/4/2024", (), gb) for gb in (False, True))
    assert american.phones != other.phones
