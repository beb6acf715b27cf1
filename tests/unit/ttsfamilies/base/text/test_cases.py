"""How written English is read, kind by kind: each file of `cases` is one kind's table."""

from pathlib import Path

import pytest

from ttsfamilies.base.text.normalize import Normalizer

TABLES = sorted((Path(__file__).parent / "cases").glob("*.txt"))


def _cases(table: Path) -> list[tuple[str, str]]:
    lines = table.read_text("utf-8").splitlines()
    return [(written, said) for written, _, said in (line.partition(" => ") for line in lines)]


CASES = [(table.stem, *case) for table in TABLES for case in _cases(table)]


def test_there_are_enough_cases() -> None:
    assert len(TABLES) >= 15
    assert len({(kind, written) for kind, written, _ in CASES}) >= 600


@pytest.mark.parametrize(("kind", "written", "said"), CASES)
def test_is_read_as_its_table_says(
    normalizer: Normalizer, kind: str, written: str, said: str
) -> None:
    words = normalizer.words(written, british=kind == "british")
    assert " ".join(word for one in words for word in one.spoken) == said
