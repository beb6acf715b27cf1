"""Pages as MkDocs reads them: the repository's documents where they stand, and what they link to.

Links in the repository are relative paths, so a tree of the same shape keeps them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.packages import ROOT

FIRST: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
_LINK: Final = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"^(```[a-z]+) [a-z ]+$", re.M)
_ITEM: Final = re.compile(r"^(?:[-*]|\d+\.) ")
_BESIDE: Final = re.compile(r"^(?:[-*]|\d+\.) |^\s|^$|^[|>#]")


def mirror(target: Path, root: Path = ROOT) -> None:
    """Copy the documents to `target`, and every file that one of them links to."""
    waiting = [*FIRST, *_names(root, root / "docs")]
    done: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            text = page((root / name).read_text("utf-8"), name, root)
            (target / name).write_text(text, "utf-8")
            waiting += _linked(text, name, root)
        else:
            shutil.copyfile(root / name, target / name)


def page(text: str, name: str, root: Path = ROOT) -> str:
    """A document as Python-Markdown understands it."""
    text = _FENCE.sub(r"\1", text)
    text = _LINK.sub(lambda found: _link(found, name, root), text)
    return _with_room(text)


def _names(root: Path, folder: Path) -> Iterator[str]:
    return (str(path.relative_to(root)) for path in folder.rglob("*") if path.is_file())


def _linked(text: str, name: str, root: Path) -> Iterator[str]:
    """Files of the repository behind a document's links."""
    for _, link in _LINK.findall(text):
        path = _path(link, name, root)
        if path is not None and path.is_file() and not _hidden(path, root):
            yield str(path.relative_to(root))


def _path(link: str, name: str, root: Path) -> Path | None:
    target = link.partition("#")[0]
    if not target or ":" in target:
        return None
    return (root / name).parent.joinpath(target).resolve()


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _link(found: re.Match[str], name: str, root: Path) -> str:
    """A folder is shown by its README, or is no link: a site has no page of it."""
    label, link = found.groups()
    path = _path(link, name, root)
    if path is None or (path.is_file() and not _hidden(path, root)):
        return found[0]
    if (path / "README.md").is_file() and not _hidden(path, root):
        return f"{label}({link.rstrip('/')}/README.md)"
    return label.strip("[]")


def _with_room(text: str) -> str:
    """Lists begin behind an empty line there."""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        begins = _ITEM.match(line) and lines and not _BESIDE.match(lines[-1])
        if begins and not fenced:
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
