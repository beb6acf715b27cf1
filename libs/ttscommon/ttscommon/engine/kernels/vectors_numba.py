"""Vector code for kernels of products, written as what it is: pieces that all of them have.

A kernel's arithmetic says what is rounded when, so its bits are the same however wide the vectors
are. Where a processor has AVX-512 with its products of whole numbers, tiles of several columns are
summed in functions of their own, which are compiled for it beside all else and called when they
may be; what was compiled on one machine runs on another.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from typing import Any, Final

from ttscommon.engine.kernels.compiled import binding, cgutils, features, intrinsic, ir, part, types

COLUMNS: Final = 16
"""Of a tile."""
ROWS: Final = 6
"""Of a tile, at most."""
NARROW: Final = 8
"""Numbers of 32 bits in a vector that all processors with AVX2 have."""
INDEX: Final = ir.IntType(64)
FIRST: Final = INDEX(0)
FLOAT: Final = ir.FloatType()
_WORD: Final = ir.IntType(32)
_NEEDED: Final = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}
_X86: Final = platform.machine() == "x86_64"
# Without the last word compilers write a product that adds up as two instructions.
_FEATURES: Final = "+avx512vnni,+fast-dpwssd"
_ATTRIBUTES: Final = (
    *("noinline", '"target-cpu"="x86-64-v4"'),
    f'"target-features"="{_FEATURES}"',
)

WIDE: Final = ctypes.c_int64(_X86 and features() >= _NEEDED)
"""Whether kernels use wide vectors."""
_SYMBOL: Final = "antiphon_wide"
# Compiled code is kept and finds it by name, so that another machine may have another answer.
binding.add_symbol(_SYMBOL, ctypes.addressof(WIDE))


@intrinsic
def _is_wide(_context: Any) -> Any:
    """Whether wide tiles may be called."""

    def code(_target: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        known = builder.module.globals.get(_SYMBOL)
        return builder.load(known or ir.GlobalVariable(builder.module, INDEX, _SYMBOL))

    return types.int64(), code


# As compiled code calls it.
is_wide: Final[Any] = _is_wide


@part
def rows_of_tile(left: int) -> int:
    """How many of the rows that are left the next tile has. Each tile reads the weights again, so
    there are as few as may be, of as many rows each.
    """
    tiles = (left + ROWS - 1) // ROWS
    return (left + tiles - 1) // tiles


def wide_function(
    builder: Any, name: str, given: Sequence[Any], write: Callable[[Any, Sequence[Any]], None]
) -> None:
    """Call what `write` writes, with a builder and parameters, in a function for AVX-512."""
    if not _X86:
        return
    found = builder.module.globals.get(name)
    if found is None:
        kind = ir.FunctionType(ir.VoidType(), [one.type for one in given])
        found = ir.Function(builder.module, kind, name)
        found.linkage = "internal"
        set.update(found.attributes, _ATTRIBUTES)  # llvmlite knows none with values
        inside = ir.IRBuilder(found.append_basic_block("begin"))
        write(inside, found.args)
        inside.ret_void()
    builder.call(found, given)


def vector(kind: Any, lanes: int) -> Any:
    """The type of so many numbers."""
    return ir.VectorType(kind, lanes)


def spread(builder: Any, value: Any, lanes: int) -> Any:
    """A number in all places of a vector."""
    nothing = ir.Constant(vector(value.type, lanes), ir.Undefined)
    alone = builder.insert_element(nothing, value, INDEX(0))
    return builder.shuffle_vector(alone, nothing, ir.Constant(vector(_WORD, lanes), [0] * lanes))


def load(builder: Any, at: Any, kind: Any, align: int) -> Any:
    """A vector from a place among its numbers."""
    return builder.load(builder.bitcast(at, kind.as_pointer()), align=align)


def store(builder: Any, value: Any, at: Any) -> None:
    """A vector of 32-bit numbers to a place among such numbers."""
    builder.store(value, builder.bitcast(at, value.type.as_pointer()), align=4)


def place(builder: Any, data: Any, row: Any, more: int, size: Any) -> Any:
    """Where row `row + more` of rows of `size` numbers begins."""
    return builder.gep(data, [builder.mul(builder.add(row, INDEX(more)), size)])


def fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c of vectors, rounded once, whatever liberties the code around it is given."""
    kind = a.type
    shape = ir.FunctionType(kind, [kind] * 3)
    declare: Any = cgutils.get_or_insert_function
    function = declare(builder.module, shape, f"llvm.fma.v{kind.count}f32")
    return builder.call(function, [a, b, c])


def array_of(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """An array that compiled code was given: its `data` and `shape`."""
    return context.make_array(kind)(context, builder, value)


def turns(
    builder: Any,
    last: Any,
    begun: Sequence[Any],
    turn: Callable[[Any, Sequence[Any]], Sequence[Any]],
    first: Any = FIRST,
    step: int = 1,
) -> Sequence[Any]:
    """A loop over first, first + step, ... below `last`, once at the least. `turn` writes one: of
    its number and of what the turn before gave; returns what the last one gives.
    """
    before, loop = builder.block, builder.append_basic_block("turn")
    builder.branch(loop)
    builder.position_at_end(loop)
    number, old = builder.phi(INDEX), [builder.phi(one.type) for one in begun]
    new = turn(number, old)
    after, end = builder.add(number, INDEX(step)), builder.block
    for phi, at_first, later in ((number, first, after), *zip(old, begun, new, strict=True)):
        phi.add_incoming(at_first, before)
        phi.add_incoming(later, end)
    done = builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", after, last), loop, done)
    builder.position_at_end(done)
    return new


def parted(values: Sequence[Any], size: int) -> Sequence[Sequence[Any]]:
    """So many of them at a time."""
    return [values[first : first + size] for first in range(0, len(values), size)]
