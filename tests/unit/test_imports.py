"""The import contract: services know only ttscommon, and torch stays where tensors are."""

import ast
import json
import pkgutil
import subprocess
import sys
from collections.abc import Container, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = {
    "ttscommon": ROOT / "libs/ttscommon/ttscommon",
    "ttsfamilies": ROOT / "libs/ttsfamilies/ttsfamilies",
    "gateway": ROOT / "services/gateway/gateway",
    "talker": ROOT / "services/talker/talker",
    "vocoder": ROOT / "services/vocoder/vocoder",
    "antiphon": ROOT / "cli/antiphon",
    "antiphon_bench": ROOT / "bench/antiphon_bench",
    "voicetrain": ROOT / "training/voicetrain",
}
ALLOWED: Final = {
    "ttscommon": set[str](),
    "ttsfamilies": {"ttscommon"},
    "gateway": {"ttscommon"},
    "talker": {"ttscommon", "ttsfamilies"},
    "vocoder": {"ttscommon", "ttsfamilies"},
    "antiphon": {"ttscommon", "ttsfamilies", "antiphon_bench", "gateway", "talker", "vocoder"},
    "antiphon_bench": {"ttscommon", "ttsfamilies", "gateway", "talker", "vocoder"},
    "voicetrain": {"ttscommon", "ttsfamilies", "talker", "vocoder"},
}
TENSORS: Final = "ttscommon.engine"
# Rooms that never see torch, below packages that do.
TORCH_FREE: Final = {
    "ttscommon.engine": [
        *("runtime", "slots", "inflight", "pace", "stage", "stage_job", "voice"),
        "checkpoint",
    ],
    "ttsfamilies": ["known", "base.talker", "base.text", "base.codec.options", "fake"],
    "talker": ["engine", "service"],
    "vocoder": ["engine", "service"],
}
# Loops that are compiled for processors, and what holds them: imported where a processor computes.
OF_PROCESSORS: Final = {
    *("ttscommon.engine.kernels.compiled", "ttsfamilies.vesper.drafts"),
    *("ttsfamilies.vesper.weights", "ttsfamilies.vesper.codec.hops"),
}
PLAIN_KERNELS: Final = (
    *("ttsfamilies.base.sampling", "ttsfamilies.base.kernels.attention"),
    "ttscommon.engine.kernels.blocks",
)
# A room imports only rooms in front of it.
FLOORS: Final = {
    "ttscommon": ["wire", "sound", "books", "process", "bus", "cluster", "engine"],
    "ttsfamilies": [
        *("base/talker", "base/sampling", "base/kernels", "base/text", "base/runners"),
        *("base/lm", "base/s3", "base/codec"),
    ],
    "gateway": [
        *("connections", "audio", "keys", "admission", "requests", "books", "protocols"),
        "description",
    ],
}


@cache
def _imports(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """At whatever depth. Every test of a session asks for the same files."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a file imports."""
    for node in _imports(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif node.module and not node.level:
            yield node.lineno, node.module


def name_of(package: str, path: Path) -> str:
    """The module's full name."""
    parts = path.relative_to(PACKAGES[package]).with_suffix("").parts
    return ".".join([package, *(part for part in parts if part != "__init__")])


def dependencies(path: Path, known: Container[str]) -> Iterator[str]:
    """Full names of what a file imports, the `known` submodules among it as such."""
    for node in _imports(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in below)


def files_of(package: str, room: str) -> Iterator[Path]:
    """A room is a folder, or one module."""
    folder = PACKAGES[package] / room
    yield from folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]


def modules(package: str, folder: Path) -> list[str]:
    """Names of all modules below a package; `__main__` runs and is not imported."""
    below = [module.name for module in pkgutil.walk_packages([str(folder)], f"{package}.")]
    return [package, *(name for name in below if not name.endswith("__main__"))]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    forbidden = PACKAGES.keys() - ALLOWED[package] - {package}
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in PACKAGES[package].rglob("*.py")
        for line, name in imported(path)
        if name.split(".")[0] in forbidden
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_through_others(package: str) -> None:
    files = {name_of(package, path): path for path in PACKAGES[package].rglob("*.py")}
    graph = {name: set(dependencies(path, files)) for name, path in files.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def _module(package: str, room: str) -> str:
    return f"{package}.{room.replace('/', '.')}"


_BUS: Final = ("ttscommon.bus", "ttscommon.wire.subjects", "nats")
# What a room knows nothing of, beside the rooms above it.
UNKNOWN: Final = {
    "gateway": (TENSORS,),
    "gateway/protocols": _BUS,
    "gateway/audio": _BUS,
    "ttsfamilies/base": tuple(
        f"ttsfamilies.{path.stem}"
        for path in PACKAGES["ttsfamilies"].iterdir()
        if path.stem not in ("base", "__init__", "__pycache__")
    ),
}


@pytest.mark.parametrize("room", UNKNOWN)
def test_a_room_does_not_import_what_it_knows_nothing_of(room: str) -> None:
    package, _, folder = room.partition("/")
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in (PACKAGES[package] / folder).rglob("*.py")
        for line, name in imported(path)
        if name.startswith(UNKNOWN[room])
    ]
    assert found == []


@pytest.mark.parametrize("package", FLOORS)
def test_a_room_imports_only_rooms_below_it(package: str) -> None:
    floors = FLOORS[package]
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for height, room in enumerate(floors)
        for path in files_of(package, room)
        for line, name in imported(path)
        if name.startswith(tuple(_module(package, above) for above in floors[height + 1 :]))
    ]
    assert found == []


def torch_free() -> Iterator[str]:
    """The gateway, ttscommon but for engines, and rooms of packages that do see torch; and the
    command line, but for what has a GPU compute, which no other module imports unasked.
    """
    yield from modules("gateway", PACKAGES["gateway"])
    shared = modules("ttscommon", PACKAGES["ttscommon"])
    yield from (name for name in shared if not name.startswith(TENSORS))
    for package, rooms in TORCH_FREE.items():
        for room in rooms:
            name = f"{package}.{room}"
            top, *below = name.split(".")
            folder = PACKAGES[top].joinpath(*below)
            yield from modules(name, folder) if folder.is_dir() else [name]
    commands = modules("antiphon", PACKAGES["antiphon"])
    yield from (name for name in commands if name != "antiphon.doctor_gpu")


def of_gpus() -> list[str]:
    """What a process imports whose engine computes on a GPU."""
    packages = ("ttscommon", "ttsfamilies", "talker", "vocoder")
    names = [name for package in packages for name in modules(package, PACKAGES[package])]
    assert set(names) > OF_PROCESSORS
    return [n for n in names if not n.endswith("_numba") and n not in OF_PROCESSORS]


@pytest.fixture(scope="module")
def dragged_in() -> dict[str, str]:
    """By packages: the first module behind which an interpreter has it loaded, or "".

    One interpreter tells all: to import everything takes seconds.
    """
    program = """
import importlib, json, sys
for package, names in json.loads(sys.argv[1]).items():
    for name in names:
        importlib.import_module(name)
        if package in sys.modules:
            break
    else:
        name = ""
    print(name)
"""
    asked = {
        "numpy": ["ttsfamilies.known"],
        "torch": [*torch_free()],
        "triton": PLAIN_KERNELS,
        "numba": of_gpus(),
    }
    command = [sys.executable, "-c", program, json.dumps(asked)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stderr == ""
    return dict(zip(asked, result.stdout.splitlines(), strict=True))


def test_torch_never_enters_gateway_schedulers_chunker_allocator_edges_and_commands(
    dragged_in: dict[str, str],
) -> None:
    assert not dragged_in["torch"]


def test_to_recognise_a_family_no_arrays_are_needed(dragged_in: dict[str, str]) -> None:
    """Facts are read in front of everything that computes, also by programs that never do."""
    assert not dragged_in["numpy"]


def test_a_process_of_a_gpu_imports_no_compiler_for_processors(dragged_in: dict[str, str]) -> None:
    """numba and LLVM are loaded by modules of such loops alone, where a processor computes."""
    assert not dragged_in["numba"]


def test_no_plain_kernel_imports_triton(dragged_in: dict[str, str]) -> None:
    """A machine without Triton serves all the same, on its CPU."""
    assert not dragged_in["triton"]
