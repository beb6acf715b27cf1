"""Loops that numba compiles, for processors: what all such kernels are compiled with.

A small step of a talker costs more in calls than in arithmetic: each operation of torch takes
microseconds to begin. A loop here does what a dozen of them did.

Kernels name the types of their arguments and are compiled when their module is imported, never
while a listener waits. What numba made is kept in NUMBA_CACHE_DIR, by default the folder of `kept`.

Sums may be taken in any order that their length alone decides, so that vectors can be used; a
row's bits therefore do not depend on its neighbours. Numbers that are not finite stay what they
are.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np

from ttscommon.engine.kernels import kept

Function = TypeVar("Function", bound=Callable[..., Any])


def _choose_target() -> None:
    """One machine code for all x86-64 processors with AVX2, so that what was compiled on one is
    found on another, and two of them speak the same bits.
    """
    if platform.machine() != "x86_64" or not {"avx2", "fma", "bmi2"} <= features():
        return
    os.environ.setdefault("NUMBA_CPU_NAME", "x86-64-v3")
    os.environ.setdefault("NUMBA_CPU_FEATURES", "")


def features() -> set[str]:
    """What this processor can do, as Linux names it; nothing where that is not known."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return set()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


_choose_target()
os.environ.setdefault("NUMBA_CACHE_DIR", str(kept.folder()))

# Behind what numba reads when it is imported. Others take it from here: a module that imported it
# first would compile for the processor at hand, and anew in every process.
import numba  # noqa: E402
from llvmlite import binding as binding  # noqa: E402
from llvmlite import ir as ir  # noqa: E402
from numba.core import cgutils as cgutils  # noqa: E402
from numba.core import types as types  # noqa: E402
from numba.extending import intrinsic as intrinsic  # noqa: E402

_HIGHEST: Final = np.float32(88.0)
_LOWEST: Final = np.float32(-87.0)
_LOG2_E: Final = np.float32(1.44269504088896341)
_LN2_HIGH: Final = np.float32(0.693359375)
_LN2_LOW: Final = np.float32(-2.12194440e-4)
_HALF: Final = np.float32(0.5)
_ONE: Final = np.float32(1.0)
_ZERO: Final = np.float32(0.0)
# Cephes' polynomial of exp(r) - 1 - r over r squared, for |r| up to half of ln 2.
_C0: Final = np.float32(1.9875691500e-4)
_C1: Final = np.float32(1.3981999507e-3)
_C2: Final = np.float32(8.3334519073e-3)
_C3: Final = np.float32(4.1665795894e-2)
_C4: Final = np.float32(1.6666665459e-1)
_C5: Final = np.float32(5.0000001201e-1)
_BIAS: Final = np.int32(127)
_MANTISSA_BITS: Final = np.int32(23)

# Divisions by zero give infinity, as they do in torch; a check of each would keep vectors away.
_OPTIONS: Final[dict[str, Any]] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
}
_AS_WRITTEN: Final = {**_OPTIONS, "fastmath": False}


FLOAT: Final[Any] = types.float32
INT: Final[Any] = types.int64


def floats(dimensions: int) -> Any:
    """An array of float32, C-contiguous."""
    return types.Array(types.float32, dimensions, "C")


def ints(dimensions: int) -> Any:
    """An array of int64, C-contiguous."""
    return types.Array(types.int64, dimensions, "C")


def flags(dimensions: int) -> Any:
    """An array of bool, C-contiguous."""
    return types.Array(types.boolean, dimensions, "C")


def strided(array: Any) -> Any:
    """The same with any strides, as a field of slots has."""
    return array.copy(layout="A")


def tuple_of(kind: type[Any], *fields: Any) -> Any:
    """A NamedTuple with fields of these types."""
    same: Any = types.NamedUniTuple
    various: Any = types.NamedTuple
    if len(set(fields)) == 1:
        return same(fields[0], len(fields), kind)
    return various(fields, kind)


def compiled(*arguments: Any) -> Callable[[Function], Function]:
    """Compile for arguments of these types, numba's; returns nothing. It runs without the
    interpreter's lock.
    """
    return _compiled(arguments, _OPTIONS)


def compiled_as_written(*arguments: Any) -> Callable[[Function], Function]:
    """As `compiled`, each operation rounded by itself, in the order of the code: the bits that the
    same operations have in torch.
    """
    return _compiled(arguments, _AS_WRITTEN)


def _compiled(arguments: Sequence[Any], options: dict[str, Any]) -> Callable[[Function], Function]:
    signature = types.void(*arguments)

    def compile_(function: Function) -> Function:
        try:
            return cast(Function, numba.njit(signature, cache=True, **options)(function))
        except RuntimeError:  # there is nowhere to keep it
            return cast(Function, numba.njit(signature, **options)(function))

    return compile_


def part(function: Function) -> Function:
    """A function of compiled ones."""
    return cast(Function, numba.njit(**_OPTIONS)(function))


def part_as_written(function: Function) -> Function:
    """A function of those that are compiled as written."""
    return cast(Function, numba.njit(**_AS_WRITTEN)(function))


@intrinsic
def _float_of_bits(_context: Any, bits: Any) -> Any:
    """The float32 that an int32's bits stand for."""

    def code(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), code


# As compiled code calls it.
as_float: Final[Any] = _float_of_bits


@part_as_written  # the two parts of ln 2 must not be added up
def exp(x: np.float32) -> np.float32:
    """e to the x in float32, within two units in the last place (Moshier's Cephes).

    NaN stays NaN; what is below e to the -87 is that.
    """
    bounded = _HIGHEST if x > _HIGHEST else (_LOWEST if x < _LOWEST else x)
    power = np.floor(bounded * _LOG2_E + _HALF)
    rest = bounded - power * _LN2_HIGH - power * _LN2_LOW
    sum_ = _C0 * rest + _C1
    sum_ = sum_ * rest + _C2
    sum_ = sum_ * rest + _C3
    sum_ = sum_ * rest + _C4
    sum_ = sum_ * rest + _C5
    sum_ = sum_ * rest * rest + rest + _ONE
    known = power if power == power else _ZERO
    scaled: np.float32 = sum_ * as_float((np.int32(known) + _BIAS) << _MANTISSA_BITS)
    return scaled
