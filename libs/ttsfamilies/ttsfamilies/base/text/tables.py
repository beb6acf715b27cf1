"""Compact notation for the word tables of this package."""


def table(text: str) -> dict[str, str]:
    """ "Mr: mister, Mrs: missus" as a dictionary; line breaks count as white space."""
    entries = (" ".join(entry.split()).partition(": ") for entry in text.split(","))
    return {key: value for key, _, value in entries if key}


def listing(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


def collection(text: str) -> frozenset[str]:
    """The distinct words of a text."""
    return frozenset(text.split())


# The English that a request is written in.


_DAY_FIRST = collection("gb uk ie au nz in za")


def british(language: str) -> bool:
    """Whether a language tag such as "en-GB" puts the day first and says "one hundred and five".

    Others, and English without a country, are read as in the United States.
    """
    primary, _, country = language.replace("_", "-").lower().partition("-")
    return primary == "en" and country in _DAY_FIRST
