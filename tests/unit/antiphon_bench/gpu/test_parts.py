"""The table of the device path's parts has what the code has."""

import re
from typing import Final

from antiphon_bench.gpu.bundle import ROOT
from antiphon_bench.gpu.cli import app

LIBS: Final = ROOT / "libs"
BASE: Final = LIBS / "ttsfamilies/ttsfamilies/base"
_DEVICES: Final = re.compile(r"ttscommon\.engine\.device\.")


def table() -> list[list[str]]:
    """Cells of each part: name, code, why, proof, default, command."""
    text = (ROOT / "docs/gpu.md").read_text().partition("## Parts of the device path")[2]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def modules() -> set[str]:
    """Kernels, what they are launched by, and what runners and codecs have of a device."""
    runners = [p for p in (BASE / "runners").glob("*.py") if _DEVICES.search(p.read_text())]
    found = [*LIBS.rglob("*_triton.py"), *runners]
    found += [p for p in LIBS.rglob("engine/device/*.py") if p.stem != "__init__"]
    found += [BASE / "codec/executor.py"]
    found += [BASE / "codec/kernels" / name for name in ("way.py", "rows.py")]
    found += [LIBS / "ttscommon/ttscommon/engine/kernels/trial.py"]
    assert all(path.is_file() for path in found)
    return {f"{path.parent.name}/{path.stem}" for path in found}


def test_every_module_of_the_device_path_is_a_part_and_every_part_is_there() -> None:
    named = [name for row in table() for name in re.findall(r"`(\S+)`", row[1])]
    assert sorted(named) == sorted(modules())


def test_each_part_has_a_reason_a_proof_and_a_command_that_decides() -> None:
    commands = {
        one.name or getattr(one.callback, "__name__", "") for one in app.registered_commands
    }
    for name, _, *told in table():
        assert all(told), name
        decided = re.match(r"`antiphon (?:doctor --gpu|bench gpu (\w+))`", told[-1])
        assert decided is not None, name
        assert decided[1] is None or decided[1] in commands, name


def test_what_is_off_is_a_setting() -> None:
    off = [name for row in table() for name in re.findall(r"off: `(ANTIPHON_\w+)`", row[4])]
    assert off
    settings = (ROOT / "docs/settings.md").read_text()
    assert all(
        name in settings or name.removeprefix("ANTIPHON_").lower() in settings for name in off
    )
