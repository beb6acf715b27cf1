"""Books: long texts that are spoken behind listeners, by whichever gateway lives, and kept."""

from gateway.books.desk import BookDesk, DeskTuning
from gateway.books.parts import FolderParts, JobParts, StoredParts
from gateway.books.reader import BookReader
from gateway.books.records import BookOrder, BookRecord, JobResult, PortionText
from gateway.books.shelf import BookShelf, FoundBook

__all__ = [
    "BookDesk",
    "BookOrder",
    "BookReader",
    "BookRecord",
    "BookShelf",
    "DeskTuning",
    "FolderParts",
    "FoundBook",
    "JobParts",
    "JobResult",
    "PortionText",
    "StoredParts",
]
