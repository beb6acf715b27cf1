"""Lines of families are counted as they say."""

from tools.families import Lines, counted, files_of, lines
from ttsfamilies.known import FAMILIES

SOURCE = '''"""What it is,
in two lines."""

# why
CODE = (
    1,
    2,
)


def said() -> str:
    """One line."""
    return """no
docstring"""
'''


def test_blank_lines_comments_and_docstrings_are_no_code() -> None:
    assert lines(SOURCE) == Lines(14, 7)


def test_both_stages_and_the_facts_of_a_family_count() -> None:
    (csm,) = [family for family in FAMILIES if family.name == "csm"]
    folders = {path.parent.name for path in files_of(csm)}
    assert folders == {"csm", "mimi"}
    assert counted(csm).all > counted(csm).code > 0
