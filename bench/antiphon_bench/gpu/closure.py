"""Packages that a machine needs beside torch to run all of this, closed over their own needs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Final, cast

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT: Final = Path(__file__).resolve().parents[3]
# Our own packages, which travel as sources, and where they are.
OURS: Final = {
    "antiphon-ttscommon": "libs/ttscommon",
    "antiphon-families": "libs/ttsfamilies",
    "antiphon-gateway": "services/gateway",
    "antiphon-talker": "services/talker",
    "antiphon-vocoder": "services/vocoder",
    "antiphon": "cli",
    "antiphon-bench": "bench",
}
# The tokenizer of a published checkpoint is an extra of the talker.
ROOTS: Final = ("antiphon", "antiphon-bench", "tokenizers")
# There already, with all that they need themselves.
PRESENT: Final = frozenset({"torch", "triton"})
# What no measurement imports: plots, checkpoints from a hub, the default voice's sentences, loops
# compiled for processors.
LEFT_OUT: Final = frozenset(
    {"matplotlib", "cycler", "huggingface-hub", "sentencex", "numba", "llvmlite"}
)
# Whatever machine makes the bundle.
_LINUX: Final = {
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "sys_platform": "linux",
    "os_name": "posix",
}


def closure(
    python: str, absent: frozenset[str] = PRESENT | LEFT_OUT, roots: Sequence[str] = ROOTS
) -> dict[str, str]:
    """Names and versions of all that `roots` need on Linux with `python` ("3.12"), none of ours.

    As installed here, which the locks pin. absent: neither carried nor followed.
    """
    versions = {"python_version": python, "python_full_version": f"{python}.0"}
    environment = {**cast("dict[str, str]", default_environment()), **_LINUX, **versions}
    found: dict[str, str] = {}
    known: set[tuple[str, str]] = set()
    waiting = [Requirement(root) for root in roots]
    while waiting:
        needed = waiting.pop()
        name = canonicalize_name(needed.name)
        for extra in ("", *needed.extras):
            if name in absent or (name, extra) in known:
                continue
            known.add((name, extra))
            if name in OURS:
                waiting += _needs(_declared(name, extra), environment)
                continue
            found[name] = distribution(name).version
            lines = distribution(name).requires or ()
            waiting += _needs(lines, environment | {"extra": extra})
    return dict(sorted(found.items()))


def _declared(name: str, extra: str) -> Sequence[str]:
    """What a package of ours says it needs, at all or for an extra."""
    project = tomllib.loads((_ROOT / OURS[name] / "pyproject.toml").read_text())["project"]
    lines: list[str] = project["dependencies"]
    if extra:
        lines = project.get("optional-dependencies", {}).get(extra, [])
    return lines


def _needs(lines: Sequence[str], environment: Mapping[str, str]) -> list[Requirement]:
    needs = [Requirement(line) for line in lines]
    return [one for one in needs if one.marker is None or one.marker.evaluate(dict(environment))]
