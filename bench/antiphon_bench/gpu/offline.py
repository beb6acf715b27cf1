"""Runs an unpacked bundle without a network: `python3 run.py SUBCOMMAND ...`.

The first call installs the packages beside this file into `site`. Python's own library is all that
this file may use: it runs before anything is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
SERVICES = ("services/gateway", "services/talker", "services/vocoder")
SOURCES = ("libs/ttscommon", "libs/ttsfamilies", *SERVICES, "cli", "bench")


def main(arguments: list[str]) -> None:
    """Install what is missing, and become the measurement."""
    if missing := problems():
        sys.exit("\n".join(missing))
    site = HERE / "site"
    if not (site / "complete").exists():
        install(site)
    os.execve(sys.executable, [*command(), *arguments], environment(site))


def problems() -> list[str]:
    """Why nothing can be measured here, in words."""
    found = []
    built_for = (HERE / "python").read_text().strip()
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != built_for:
        found.append(
            f"The packages are for Python {built_for}, and this is {running}:"
            f" run it with python{built_for}, or make the bundle with --python {running}."
        )
    if find_spec("torch") is None:
        found.append(f"torch is not installed for {sys.executable}; the bundle does not bring it.")
    if find_spec("pip") is None and not (HERE / "site" / "complete").exists():
        found.append(f"{sys.executable} has no pip, which installs the packages.")
    if not (sources() / SOURCES[-1]).is_dir():
        found.append("The sources are not in this bundle: call it in their folder.")
    return found


def sources() -> Path:
    """Ours: beside this file, or where it is called if the bundle has none."""
    return HERE if (HERE / SOURCES[-1]).is_dir() else Path.cwd()


def install(site: Path) -> None:
    """Unpack the wheels into `site`; nothing is fetched. Raises CalledProcessError."""
    wheels = sorted(str(wheel) for wheel in (HERE / "wheels").glob("*.whl"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-compile", "--upgrade", "--target", str(site)]
    subprocess.run([*pip, *offline, *wheels], check=True)
    (site / "complete").touch()


def command() -> list[str]:
    return [sys.executable, "-m", "antiphon_bench.gpu"]


def environment(site: Path) -> dict[str, str]:
    """Ours first, then the wheels, then the machine's own; programs of the wheels are found."""
    before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    paths = [*(str(sources() / source) for source in SOURCES), str(site), *before]
    programs = [str(site / "bin"), os.environ.get("PATH", os.defpath)]
    told = {"PYTHONPATH": os.pathsep.join(paths), "PATH": os.pathsep.join(programs)}
    return {**os.environ, **told}


if __name__ == "__main__":
    main(sys.argv[1:])
