"""What `antiphon models` lists."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from antiphon.app import app
from antiphon.client import ServedModel
from antiphon.listen import KNOWN, SERVED, known_families, served
from ttsfamilies.known import FAMILIES

DOCUMENT = Path(__file__).parents[3] / "docs" / "models.md"


def test_known_families_are_listed_without_a_stack() -> None:
    result = CliRunner().invoke(app, ["models", "--known"], env={"COLUMNS": "400"})
    assert result.exit_code == 0
    for family in FAMILIES:
        assert family.title in result.output
        assert family.weights in result.output


def test_a_served_model_shows_what_it_obeys() -> None:
    (row,) = served([ServedModel("tara", "orpheus", 24_000, ("temperature", "top_p"))])
    assert dict(zip(SERVED, row, strict=True))["accepts"] == "temperature, top_p"


def test_the_document_has_the_table_of_families() -> None:
    lines = [KNOWN, ["---"] * len(KNOWN), *known_families()]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    assert table in DOCUMENT.read_text("utf-8")
