"""`python -m tests.chaos NAME [options]`: the programs that disturb a stack and measure it.

Without a name it is the matrix of faults: `python -m tests.chaos --fault "kill talker"`.
"""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_DEFAULT: Final = "matrix"
PROGRAMS: Final = (
    *(_DEFAULT, "books", "cold", "fleet", "hogs", "leaving", "planned"),
    *("limits", "resumes", "slow", "soak", "spent", "stored"),
)
"""Modules beside this one."""


def summary(name: str) -> str:
    """What a program is for: the first line of its module, which is not imported."""
    source = Path(__file__).with_name(f"{name}.py").read_text()
    first = source.split('"""')[1].splitlines()[0]
    return first.removeprefix(f"`python -m tests.chaos {name}`: ")


def listing() -> str:
    """All programs, a line each."""
    lines = [f"  {name:<10} {summary(name)}" for name in PROGRAMS]
    return f"{__doc__}\n" + "\n".join(lines) + "\n\nNAME --help lists a program's options."


def main(arguments: Sequence[str]) -> int:
    """Run a program; its exit status."""
    name, rest = _DEFAULT, list(arguments)
    if rest and not rest[0].startswith("-"):
        name = rest.pop(0)
    elif rest in (["--help"], ["-h"]):
        print(listing())
        return 0
    if name not in PROGRAMS:
        print(f"there is no program {name!r}\n\n{listing()}", file=sys.stderr)
        return 2
    sys.argv = [f"python -m tests.chaos {name}", *rest]
    return importlib.import_module(f"tests.chaos.{name}").main() or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
