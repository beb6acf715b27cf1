"""Run references on synthetic checkpoints: python -m tests.parity.make_goldens BUILD [FAMILY ...].

Each family's reference is `reference/NAME.py` with `write(checkpoints, goldens)`. It runs in
BUILD/ENVIRONMENT, made once of `reference/ENVIRONMENT.txt` and, without their dependencies, of
`reference/ENVIRONMENT-alone.txt`.
"""

import argparse
import shlex
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.parity import s3_cases, step_flow_cases
from tests.parity.cases import ADAPTED, CHECKPOINTS
from tests.parity.codecs import CODECS
from tests.parity.families import FAMILIES
from tests.parity.material import GOLDENS
from ttsfamilies.cosyvoice.s3_flow import synthetic as s3_flow
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

ADAPTERS: Final = "adapters"
REFERENCE: Final = Path(__file__).parent / "reference"


def environment(build: Path, name: str, options: Sequence[str] = ()) -> Path:
    """The interpreter of a reference's environment, made if it is not there. options: of pip."""
    folder = build / name
    python, done = folder / "bin" / "python", folder / ".installed"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *options]
        subprocess.run([*pip, "-r", REFERENCE / f"{name}.txt"], check=True)
        alone = REFERENCE / f"{name}-alone.txt"
        if alone.exists():
            # Of some only files are read, whatever Python the package wants.
            free = ("--no-deps", "--ignore-requires-python")
            subprocess.run([*pip, *free, "-r", alone], check=True)
        done.touch()
    return python


def write_checkpoints(folder: Path, name: str) -> str:
    """What a reference runs on; returns the name of its environment."""
    if name in FAMILIES:
        FAMILIES[name].write_all(folder)
        return FAMILIES[name].environment
    if name == s3_cases.NAME:
        for kind in s3_cases.KINDS:
            s3_flow.write_codec(folder / name / kind, kind, seed=2)
        return name
    if name == step_flow_cases.NAME:
        s3_flow.write_codec(folder / name, "step_audio2", seed=2)
        return name
    if name == ADAPTERS:
        name = ADAPTED.checkpoint
        write_checkpoint(folder / name, "tiny", **CHECKPOINTS[name])
        return FAMILIES["qwen3_tts"].environment
    CODECS[name].write(folder / name)
    return CODECS[name].environment


def known() -> list[str]:
    """Families, codecs that are no part of a family's goldens, what codecs share, and adapters of
    one family; without those whose reference is asked as the tests run.
    """
    families = [name for name, family in FAMILIES.items() if family.environment]
    apart = (name for name, codec in CODECS.items() if codec.environment)
    return [*families, ADAPTERS, s3_cases.NAME, step_flow_cases.NAME, *apart]


def main() -> None:
    """All that are known, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.make_goldens")
    parser.add_argument("build", type=Path)
    parser.add_argument("family", nargs="*", help=f"of {', '.join(known())}; default: all")
    parser.add_argument("--pip", type=shlex.split, default=[], help="options of pip install")
    given = parser.parse_args()
    for name in given.family or known():
        if name not in known():
            raise SystemExit(f"there are no goldens of {name!r}; known: {', '.join(known())}")
        checkpoints = given.build / "checkpoints"
        python = environment(given.build, write_checkpoints(checkpoints, name), given.pip)
        script = ["-m", "tests.parity.reference", name, str(checkpoints), str(GOLDENS)]
        if subprocess.run([str(python), *script], check=False).returncode:
            sys.exit(f"the reference of {name} failed")


if __name__ == "__main__":
    main()
