"""Loops that numba compiles, for processors: what all such kernels are compiled with.

A small step of a talker costs more in calls than in arithmetic: each operation of torch takes
microseconds to begin. A loop here does what a dozen of them did.

Sums may be taken in any order that their length alone decides, so that vectors can be used; a
row's bits therefore do not depend on its neighbours, but may differ from processor to processor.
Numbers that are not finite stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

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


def compiled(function: Function) -> Function:
    """Compile when it is first called, without the interpreter's lock; kept on the disk where the
    code's folder, or NUMBA_CACHE_DIR, can be written to.
    """
    return _kept(function, _OPTIONS)


def compiled_as_written(function: Function) -> Function:
    """As `compiled`, each operation rounded by itself, in the order of the code: the bits that the
    same operations have in torch.
    """
    return _kept(function, _OPTIONS | {"fastmath": False})


def _kept(function: Function, options: dict[str, Any]) -> Function:
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # there is nowhere to keep it
        return cast(Function, numba.njit(**options)(function))


def part(function: Function) -> Function:
    """A function of compiled ones, written out where it is called."""
    return cast(Function, numba.njit(inline="always", **_OPTIONS)(function))


@intrinsic  # type: ignore[untyped-decorator]
def _float_of_bits(_context: Any, bits: Any) -> Any:
    """The float32 that an int32's bits stand for."""

    def code(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), code


@part
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
    return sum_ * _float_of_bits((np.int32(known) + _BIAS) << _MANTISSA_BITS)
