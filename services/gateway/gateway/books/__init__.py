"""Books: long texts that are spoken behind listeners, by whichever gateway lives, and kept."""

from gateway.books.job_runner import JobRunner
from gateway.books.job_store import FolderParts, JobParts, JobStore, StoredParts
from gateway.books.records import BookOrder, BookReader, BookRecord, JobResult, PortionText
