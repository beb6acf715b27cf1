"""The local stack: an embedded broker and every service, as supervised child processes."""

from antiphon.stack.local import LocalStack, StackConfig, StackFailed
