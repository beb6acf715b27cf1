"""How written English is read, kind by kind: each file of `cases` is one kind's table."""

from pathlib import Path

import pytest

from ttsfamilies.base.text.normalize import Normalizer

TABLES = sorted((Path(__file__).parent / "cases").glob("*.txt"))


def _cases(table: Path) -> list[tuple[str, str]]:
    lines = table.read_text("utf-8").splitlines()
    return [(written, said) for written, _, said in (line.partition(" => ") for line in lines)]


CASES = {table.stem: _cases(table) for table in TABLES}


def test_there_are_enough_cases() -> None:
    assert len(TABLES) >= 15
    assert sum(len({written for written, _ in cases}) for cases in CASES.values()) >= 600


@pytest.mark.parametrize("kind", CASES)
def test_is_read_as_its_table_says(normalizer: Normalizer, kind: str) -> None:
    read = [(written, _read(normalizer, written, kind)) for written, _ in CASES[kind]]
    assert read == CASES[kind]


def _read(normalizer: Normalizer, written: str, kind: str) -> str:
    words = normalizer.words(written, british=kind == "british")
    return " ".join(word for one in words for word in one.spoken)
