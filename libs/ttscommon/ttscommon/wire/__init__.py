"""Everything that travels: messages, subjects, the structs of the buckets, and errors."""
