"""docs/clients.md says of every client exactly what `make clients` runs it for."""

import json
import re
from pathlib import Path
from typing import Final

from tests.clients.cases import ROWS, Row, features

ROOT: Final = Path(__file__).resolve().parents[2]


def pinned(row: Row) -> str:
    text = (ROOT / "tests" / "clients" / row.file).read_text()
    if row.file.endswith(".json"):
        return str(json.loads(text)["dependencies"][row.package])
    found = re.search(rf"^{re.escape(row.package)}==(\S+)$", text, re.MULTILINE)
    assert found, row
    return found[1]


def documented() -> list[list[str]]:
    """The first seven cells of every row of the table of clients."""
    text = (ROOT / "docs" / "clients.md").read_text()
    table = text[text.index("| client | version |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")][:7] for line in table]


def test_the_table_of_clients_is_what_is_run() -> None:
    assert documented() == [
        [row.client, pinned(row), *("yes" if has else "" for has in features(row))] for row in ROWS
    ]
