"""Links between documents lead somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


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
