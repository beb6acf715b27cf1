"""The codecs whose samples are held against a reference: those of families that have one."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from tests.parity.subject import CodecSubject
from ttsfamilies.known import FAMILIES as KNOWN

CODECS: Final[Mapping[str, CodecSubject]] = {
    facts.codec.name: import_module(f"{__name__}.{facts.codec.name}").CODEC
    for facts in KNOWN
    if find_spec(f"{__name__}.{facts.codec.name}")
}
