"""The private names of nats-py stand in one module, and the installed library has them all."""

import ast
import inspect
import re
from pathlib import Path
from typing import Final

import nats.aio.client
import pytest

from ttscommon.bus import library
from ttscommon.bus.library import HOOKS, OpenClient

BUS: Final = Path(library.__file__).parent
THEIRS: Final = {
    *vars(nats.aio.client.Client),
    *re.findall(r"self\.(_\w+)", inspect.getsource(nats.aio.client.Client)),
}
PRIVATE: Final = {name for name in THEIRS if name.startswith("_") and not name.endswith("__")}


def named(file: str) -> set[str]:
    """Private attributes that a file names, other than those it defines."""
    tree = ast.parse((BUS / file).read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} - own
    return {name for name in names if name.startswith("_") and not name.endswith("__")}


def test_the_installed_library_has_every_private_name() -> None:
    assert {*HOOKS.values()} < named("library.py") <= PRIVATE


# Other objects than the client have these too; what our clients define themselves is ours.
@pytest.mark.parametrize("file", ["client.py", "lean.py"])
def test_the_clients_name_nothing_private(file: str) -> None:
    assert not named(file) & PRIVATE


def test_no_other_module_extends_the_librarys_client() -> None:
    found = [path for path in BUS.rglob("*.py") if re.search(r"\(Client\)", path.read_text())]
    assert [path.name for path in found] == ["library.py"]


@pytest.mark.parametrize(("ours", "theirs"), HOOKS.items())
def test_a_hook_replaces_the_librarys_method_and_reaches_it(ours: str, theirs: str) -> None:
    assert getattr(OpenClient, ours) is getattr(nats.aio.client.Client, theirs)
    replaced = type("Replaced", (OpenClient,), {ours: print})
    assert getattr(replaced, theirs) is print
