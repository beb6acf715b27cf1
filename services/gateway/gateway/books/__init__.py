"""Books: long texts that are spoken behind listeners, by whichever gateway lives, and kept."""

from gateway.books.job_runner import JobRunner, JobRunnerTuning
from gateway.books.job_store import FoundBook, JobStore
from gateway.books.parts import FolderParts, JobParts, StoredParts
from gateway.books.reader import BookReader
from gateway.books.records import BookOrder, BookRecord, JobResult, PortionText

__all__ = [
    "BookOrder",
    "BookReader",
    "BookRecord",
    "FolderParts",
    "FoundBook",
    "JobParts",
    "JobResult",
    "JobRunner",
    "JobRunnerTuning",
    "JobStore",
    "PortionText",
    "StoredParts",
]
