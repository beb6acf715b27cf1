"""Line breaks: those that end something, and those at which a line was only wrapped.

Headings, items, cells of a table, verses and lines of a dialogue end with their line. Mail and text
files are wrapped at some column, and their sentences go on.
"""

import re
from typing import Final

from ttsfamilies.base.text.rules import collection
from ttsfamilies.base.text.words import TITLES

# Narrower columns are no wrapped text, wider ones are not wrapped by hand.
_WRAPPED: Final = range(50, 121)
_OPENERS: Final = "\"'“‘«([*_`"
_BEGINS: Final = re.compile(r"[-*•–—·◦▪#>|+=]|\(?(?:\d{1,3}|[a-zA-Z])[.)](?!\w)")
_NAMING: Final = frozenset((*TITLES, "Dr")) - {"Jr", "Sr"}
# A line that ends with one of them goes on, however short it is.
_LEADING: Final = collection(
    """
    a an the of to and or in on at by for with from into as is are was were be been has have had
    will would can could that which who whose my your his her its our their this these those no not
    very than but about between over under after before through
    """
)


def breaks(line: int, last: str, following: str, wrapped: bool) -> bool:
    """Whether a line break ends what stands before it.

    line: characters of the line in front of it. last, following: the words beside it. wrapped:
    whether the text went on at a break before this one.
    """
    if _BEGINS.match(following):
        return True
    if last in _LEADING or last.removesuffix(".") in _NAMING:
        return False
    if line not in _WRAPPED:
        return True
    begins = following.lstrip(_OPENERS)[:1]
    name = last[:1].isupper() and last.rstrip(".").isalpha()
    return not (begins.islower() or wrapped or name)
