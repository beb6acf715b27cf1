"""The English that a request is written in."""

from ttsfamilies.base.text.tables import collection

_DAY_FIRST = collection("gb uk ie au nz in za")


def british(language: str) -> bool:
    """Whether a language tag such as "en-GB" puts the day first and says "one hundred and five".

    Others, and English without a country, are read as in the United States.
    """
    primary, _, country = language.replace("_", "-").lower().partition("-")
    return primary == "en" and country in _DAY_FIRST
