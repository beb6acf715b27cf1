"""What travels: messages, subjects, the structs of the buckets, and the errors that they carry."""
