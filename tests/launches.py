"""What a device would launch, counted without one: tensors have shapes alone, and nothing runs.

An operator counts as the kernels that a device runs for it, a Triton kernel as one. Bytes are what
each cannot but read and write if nothing stays in a cache: every number of every operand once, of
a gather what it takes.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ttscommon.engine.device.device import Device, DeviceEvent, HostDevice, Recorded, Work
from ttscommon.engine.kernels.choice import only

META: Final = torch.device("meta")
_PROCESSORS: Final = 132  # of an H100
_aten = torch.ops.aten

# Memory is taken, or a shape is looked at: nothing is launched.
_NOTHING: Final = {
    *("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "detach"),
    *("lift_fresh", "_unsafe_view", "resize_", "set_", "is_same_size", "sym_size"),
}
# Kernels of operators that take more than one; a convolution adds its bias behind it.
_SEVERAL: Final = {"scatter": 2, "index_put": 2}
# Operators that read of their first operand only what they give.
_GATHERS: Final = {"index", "index_select", "gather", "embedding"}
# Operators in place that touch no more than what they are given.
_SCATTERS: Final = {"index_copy_", "index_put_", "scatter_", "index_add_"}

# Bytes of a Triton kernel by its arguments, where it does not read and write all of its tensors.
Bytes = Callable[[Mapping[str, Any]], int]


class Launches(TorchDispatchMode):
    """names: how often each kernel was launched; `bytes`: of all of them."""

    def __init__(self, kernels: Mapping[str, Bytes]) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self._kernels = kernels

    @property
    def count(self) -> int:
        return sum(self.names.values())

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self:
            decomposed = func.decompose(*args, **kwargs)
        if decomposed is not NotImplemented:
            return decomposed
        if func is _aten.mm.dtype:  # knows no tensors without values
            out = args[0].new_empty(len(args[0]), args[1].shape[1], dtype=args[2])
        else:
            out = func(*args, **kwargs)
        self._note(func, args, kwargs, out)
        return out

    def _note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        name = func._schema.name.partition("::")[2]
        if func.is_view or name in _NOTHING:
            return
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        if all(tensor.device.type == "cpu" for tensor in (*tensors, *_tensors(out))):
            return  # the host's own
        self.names[name] += _SEVERAL.get(name, 1)
        self.bytes[name] += _bytes(name, tensors, _tensors(out))
        if name == "convolution" and args[2] is not None:
            self.names["bias of a convolution"] += 1
            self.bytes["bias of a convolution"] += 2 * size_of(out)

    def kernel(self, name: str, arguments: Mapping[str, Any]) -> None:
        """A Triton kernel was launched."""
        self.names[name] += 1
        if name in self._kernels:
            self.bytes[name] += self._kernels[name](arguments)
        else:
            tensors = {id(x): x for x in arguments.values() if isinstance(x, Tensor)}
            self.bytes[name] += sum(map(size_of, tensors.values()))


def _tensors(found: Any) -> list[Tensor]:
    return [x for x in tree_leaves(found) if isinstance(x, Tensor)]


def _bytes(name: str, given: list[Tensor], out: list[Tensor]) -> int:
    written = sum(map(size_of, out))
    if name in _GATHERS:
        return 2 * written + sum(map(size_of, given[1:]))
    if name in _SCATTERS:
        return 2 * size_of(given[-1]) + sum(map(size_of, given[1:-1]))
    return written + sum(map(size_of, given))


def size_of(tensor: Tensor) -> int:
    """Bytes of a tensor's numbers, each once however often it is repeated."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in sizes if stride) * tensor.element_size()


@contextmanager
def counted(kernels: Mapping[str, Bytes] | None = None) -> Iterator[Launches]:
    """Count what is computed inside with tensors of META, by the kernels of a device."""
    from triton.runtime.interpreter import InterpretedFunction

    from ttsfamilies.base.kernels import attention

    counting = Launches(kernels or {})

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **told: Any) -> None:
        del grid, warmup
        counting.kernel(self.fn.__name__, {**dict(zip(self.arg_names, args, strict=False)), **told})

    with (
        patch.object(InterpretedFunction, "run", run),
        patch.object(attention, "processors", lambda _: _PROCESSORS),
        only("triton"),
        torch.inference_mode(),
        counting,
    ):
        yield counting


class WithoutValues(Device):
    """A device whose tensors have shapes alone: a read of a value, or a shape that hangs on one,
    raises.
    """

    where = META

    def __init__(self) -> None:
        self._host = HostDevice()

    def submit(self, work: Work) -> None:
        work()

    def mark(self) -> DeviceEvent:
        return self._host.mark()

    def _record(self, work: Callable[[], Tensor]) -> Recorded:
        return Recorded(lambda: None, work())

    def aside(self) -> AbstractContextManager[object]:
        return self._host.aside()

    def pinned(self, size: int) -> Tensor:
        return self._host.pinned(size)
