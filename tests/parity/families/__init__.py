"""The families whose frames are held against a reference: all but the default voice.

A family is a module here by the name of its facts; see
tests/parity/subject.py.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from tests.parity.subject import Subject
from ttsfamilies.known import FAMILIES as KNOWN

FAMILIES: Final[Mapping[str, Subject[Any]]] = {
    facts.name: import_module(f"{__name__}.{facts.name}").FAMILY
    for facts in KNOWN
    if find_spec(f"{__name__}.{facts.name}")
}
