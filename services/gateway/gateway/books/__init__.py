"""Books: long texts that are spoken behind listeners, by whichever gateway lives, and kept."""

from gateway.books.job_runner import JobRunner, JobRunnerTuning
from gateway.books.job_store import FolderParts, FoundBook, JobParts, JobStore, StoredParts
from gateway.books.records import BookOrder, BookReader, BookRecord, JobResult, PortionText

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
