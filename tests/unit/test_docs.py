"""Links between documents lead somewhere."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_BELOW: Final = re.compile(r"^\| where is decided \| below \[[^\]]+\]\(([^)]+)\) \|$")


def documents() -> list[Path]:
    """Every Markdown file that belongs to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    # Files in data/ are templates of documents elsewhere.
    paths = [ROOT / line for line in listed.splitlines() if "/data/" not in line]
    return [path for path in paths if path.exists()]


def anchors(path: Path) -> set[str]:
    """Names of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    for link in _LINK.findall(path.read_text()):
        target, _, anchor = link.partition("#")
        if ":" in target:
            continue
        file = (path.parent / target) if target else path
        assert file.exists(), f"{link} leads nowhere"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{link}: no such heading"


def places() -> list[tuple[str, str]]:
    """Folders of docs/architecture.md's tables, each with a path that a row names below it."""
    found, below = [], ""
    for line in (ROOT / "docs/architecture.md").read_text("utf-8").splitlines():
        if head := _BELOW.match(line):
            below = head[1]
        elif not line.startswith("|"):
            below = ""
        elif below:
            cell = line.rsplit(" | ", 1)[-1]
            found += [(below, path) for path in re.findall(r"`([\w./]+(?:\.py|/\w+))`", cell)]
    return found


def test_where_is_decided_names_files_that_are_there() -> None:
    assert len(places()) > 100
    docs = ROOT / "docs"
    assert [place for place in places() if not docs.joinpath(*place).exists()] == []
