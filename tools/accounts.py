"""Write the chart's copy of the broker's accounts, for any prefix and models.

python -m tools.accounts
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttscommon.bus.credentials import accounts

PATH: Final = Path(__file__).resolve().parents[1] / "helm/antiphon/files/accounts.conf"
_PREFIX: Final = "PREFIX"
_MODEL: Final = "MODEL"


def template() -> str:
    """`antiphon bus accounts` as a template of the chart, one range for each right of a model."""
    lines = []
    for line in accounts(_PREFIX, [_MODEL]).splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        if _MODEL in line:
            named = line.replace(_PREFIX, "{{ $.Values.busPrefix }}").replace(_MODEL, "{{ .name }}")
            lines += [f"{indent}{{{{- range .Values.models }}}}", named, f"{indent}{{{{- end }}}}"]
        else:
            lines.append(line.replace(_PREFIX, "{{ .Values.busPrefix }}"))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the file."""
    PATH.write_text(template(), "utf-8")


if __name__ == "__main__":
    main()
