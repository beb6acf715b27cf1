"""A part of a list, by the item that it follows or precedes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ttscommon.wire.errors import BadRequest

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """more: whether there are items beyond it."""

    items: Sequence[T]
    more: bool


def limit_of(query: Mapping[str, str], name: str, default: int, most: int = 100) -> int:
    """How many items a query wants; raises BadRequest."""
    given = query.get(name) or str(default)
    if not given.isdecimal() or not 1 <= int(given) <= most:
        raise BadRequest(f"'{name}' is a number from 1 to {most}", param=name)
    return int(given)


def page(
    items: Sequence[T],
    name: Callable[[T], str],
    limit: int,
    *,
    after: tuple[str, str | None] = ("after", None),
    before: tuple[str, str | None] = ("before", None),
) -> Page[T]:
    """At most `limit` items behind one, or in front of another; both are (parameter, its value).

    Raises BadRequest for an item that there is not.
    """
    if before[1]:
        end = _place(items, name, *before)
        start = max(0, end - limit)
        return Page(items[start:end], start > 0)
    start = _place(items, name, *after) + 1 if after[1] else 0
    return Page(items[start : start + limit], start + limit < len(items))


def _place(items: Sequence[T], name: Callable[[T], str], param: str, wanted: str | None) -> int:
    for place, item in enumerate(items):
        if name(item) == wanted:
            return place
    raise BadRequest(f"'{param}': there is no '{wanted}' in the list", param=param)
