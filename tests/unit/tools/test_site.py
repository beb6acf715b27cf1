"""The site's pages are the repository's documents, and its reference is the code's."""

from pathlib import Path

import pytest
import yaml

from tools.packages import ROOT
from tools.site import reference, sources
from tools.site.sockets import CHANNELS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of a few files."""
    files = {
        **dict.fromkeys(sources.FIRST, "# First\n"),
        "docs/a.md": "See [code](../tools/a.py), [all](../tools), [one](../libs/x) and"
        " [hidden](../.ci/run).\nThen:\n- an item\n\n```json http\n{}\n- no item\n```\n",
        "libs/x/README.md": "# X\n",
        "tools/a.py": "pass\n",
        ".ci/run": "true\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_documents_come_with_all_that_they_link_to(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    sources.mirror(target, root)
    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert found == {*sources.FIRST, "docs/a.md", "tools/a.py", "libs/x/README.md"}


def test_links_lead_to_pages_and_folders_are_none(root: Path) -> None:
    text = sources.page((root / "docs/a.md").read_text(), "docs/a.md", root)
    assert "[code](../tools/a.py)" in text
    assert "[one](../libs/x/README.md)" in text
    assert ", all, " in text
    assert "and hidden." in text


def test_lists_have_room_and_fences_one_word(root: Path) -> None:
    text = sources.page((root / "docs/a.md").read_text(), "docs/a.md", root)
    assert "Then:\n\n- an item" in text
    assert "```json\n{}\n- no item\n```" in text


def test_the_reference_holds_every_command_metric_route_and_socket(tmp_path: Path) -> None:
    reference.write(tmp_path)
    said = {path.name: path.read_text() for path in tmp_path.glob("*.md")}
    assert "### antiphon bus accounts" in said["cli.md"]
    assert "`tts_ttfp_seconds`" in said["metrics.md"]
    assert "`tts_streams_total`" in said["metrics.md"]
    document = reference.described()
    for path, methods in document["paths"].items():
        assert all(f"### {method.upper()} {path}\n" in said["http.md"] for method in methods)
    assert all(f"## {path}\n" in said["websocket.md"] for path in CHANNELS)


def test_every_document_of_the_menu_is_there() -> None:
    class Loader(yaml.SafeLoader):
        """Takes the tags of MkDocs for nothing."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    menu = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]
    made = {"listen.md", "pictures.md"}
    pages = [page for page in _pages(menu) if page not in made | {"reference"}]
    missing = [
        page for page in pages if not page.startswith("reference/") and not (ROOT / page).exists()
    ]
    assert len(pages) > 30
    assert missing == []


def _pages(menu: object) -> list[str]:
    if isinstance(menu, str):
        return [menu]
    parts = menu.values() if isinstance(menu, dict) else menu if isinstance(menu, list) else ()
    return [page for part in parts for page in _pages(part)]
