"""Print the part of the lock that given requirements come to, hashes included.

    python tools/locked.py needs.txt [PIP_OPTION...] > locked.txt

For `pip install --require-hashes`, which takes exact versions alone. torch is left out, and what
only some of its builds bring: its step is its own (tools/torch_index.py, whose output the options
are).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ("requirements.txt", "requirements-dev.txt")
APART: Final = "requirements-torch.txt"
TORCH: Final = "torch"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def read(paths: Iterable[Path]) -> dict[str, str]:
    """The entries of lock files by the packages' names, each with its hashes."""
    entries: dict[str, str] = {}
    for path in paths:
        text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.M)
        for entry in re.split(r"\n(?! )", text.strip()):
            entries[name_of(entry)] = entry
    return entries


def pins(entries: Mapping[str, str]) -> list[str]:
    """What they pin, without hashes: constraints for a resolver."""
    return [entry.split(" \\")[0] for entry in entries.values()]


def name_of(requirement: str) -> str:
    """As indexes spell it."""
    found = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def select(
    needs: Sequence[str],
    entries: Mapping[str, str],
    torch: Mapping[str, str],
    options: Sequence[str] = (),
) -> list[str]:
    """The entries of all that pip would install for `needs`; KeyError: the lock lacks one.

    torch: its own entry. Where it is needed, what the lock lacks is left to its step.
    """
    wanted = [need for need in needs if need]
    limits = pins({**entries, **torch})
    names = sorted({name_of(found) for found in resolve(wanted, limits, options)})
    if TORCH in names:
        names = [name for name in names if name in entries]
    return [entries[name] for name in names]


def resolve(needs: Sequence[str], constraints: Sequence[str], options: Sequence[str]) -> list[str]:
    """Names of all that pip would install; raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        limits, report = Path(folder) / "constraints.txt", Path(folder) / "report.json"
        limits.write_text("\n".join(constraints))
        command = [sys.executable, "-m", "pip", "install", "-qq", "--dry-run", "--ignore-installed"]
        told = [*options, "--constraint", str(limits), "--report", str(report)]
        subprocess.run([*command, *told, *needs], check=True, stdout=subprocess.DEVNULL)
        installed = json.loads(report.read_text())["install"]
    return [str(one["metadata"]["name"]) for one in installed]


if __name__ == "__main__":
    listed = Path(sys.argv[1]).read_text().splitlines()
    locked = read(ROOT / lock for lock in LOCKS)
    print("\n".join(select(listed, locked, read([ROOT / APART]), sys.argv[2:])))
