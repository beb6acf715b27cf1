"""Prose names its actors, and a module's first line begins with what the module is."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from tests.unit.test_imports import PACKAGES, ROOT

HEADLESS: Final = re.compile(r"(What|How|Who|Whoever|Where|When|Whether|Which|Why|That)\b")
NAMELESS: Final = re.compile(r"\b(nobody|somebody|anybody|everybody|whoever|whomever)\b", re.I)
# Sentences to be spoken, not prose of ours.
SPOKEN: Final = {"texts.py", "page.py"}
# Read by earlier releases: a lease of a job without a holder has it in its key.
STORED: Final = ('"nobody"',)
PAGES: Final = (
    "architecture",
    "protocol",
    "operations",
    "models",
    "measuring",
    "performance",
    "settings",
)


def sources(package: str) -> list[Path]:
    return sorted(PACKAGES[package].rglob("*.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_module_opens_with_what_it_is_and_not_with_a_clause(package: str) -> None:
    openings = {
        path.relative_to(ROOT): ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        for path in sources(package)
    }
    assert {str(path): text for path, text in openings.items() if HEADLESS.match(text)} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_code_names_the_actor(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sources(package)
        if path.name not in SPOKEN
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if NAMELESS.search(line) and not any(word in line for word in STORED)
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES)
def test_documents_name_the_actor(page: str) -> None:
    lines = (ROOT / f"docs/{page}.md").read_text("utf-8").splitlines()
    assert [line for line in lines if NAMELESS.search(line)] == []
