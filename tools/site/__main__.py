"""Write what MkDocs reads: python -m tools.site FOLDER [--plain]

`--plain`: without pictures and sound, which need chromium, Prometheus and a minute of two cores.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from tools.site import pictures, reference, sources

_STYLE = Path(__file__).with_name("site.css")
_NONE = "This build was made without pictures and sound.\n"


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    folder: Path = options.folder
    shutil.rmtree(folder, ignore_errors=True)
    sources.mirror(folder)
    reference.write(folder / "reference")
    shutil.copy(_STYLE, folder)
    try:
        if options.plain:
            for name in ("listen", "pictures"):
                (folder / f"{name}.md").write_text(f"# {name.capitalize()}\n\n{_NONE}", "utf-8")
        else:
            pictures.take(folder)
    except pictures.Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
