"""The private names of nats-py stand in one module, and the installed library has them all."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import nats.aio.client
import pytest

from ttscommon.bus import library
from ttscommon.bus.library import HOOKS, USED, OpenClient

BUS: Final = Path(library.__file__).parent
THEIRS: Final = {
    *vars(nats.aio.client.Client),
    *re.findall(r"self\.(_\w+)", inspect.getsource(nats.aio.client.Client)),
}
PRIVATE: Final = {name for name in THEIRS if name.startswith("_") and not name.endswith("__")}
# Other objects than the client have these too; what our clients define themselves is ours.
CLIENTS: Final = ("client.py", "lean.py", "library.py")


def used(path: Path) -> Iterator[str]:
    """Private attributes of a client that a file names, other than those it defines."""
    tree = ast.parse(path.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE - own:
            yield node.attr


@pytest.mark.parametrize("name", [*USED, *HOOKS.values()])
def test_the_installed_library_has_every_private_name(name: str) -> None:
    assert name in PRIVATE


def test_the_module_names_all_that_it_uses() -> None:
    assert set(used(BUS / "library.py")) == {*USED, *HOOKS.values()}


@pytest.mark.parametrize("file", [name for name in CLIENTS if name != "library.py"])
def test_the_clients_name_nothing_private(file: str) -> None:
    assert set(used(BUS / file)) == set()


def test_no_other_module_extends_the_librarys_client() -> None:
    found = [path for path in BUS.rglob("*.py") if re.search(r"\(Client\)", path.read_text())]
    assert [path.name for path in found] == ["library.py"]


@pytest.mark.parametrize(("ours", "theirs"), HOOKS.items())
def test_a_hook_replaces_the_librarys_method_and_reaches_it(ours: str, theirs: str) -> None:
    assert getattr(OpenClient, ours) is getattr(nats.aio.client.Client, theirs)
    replaced = type("Replaced", (OpenClient,), {ours: print})
    assert getattr(replaced, theirs) is print
