"""The course's own files: lessons and their format, copies, the record, data."""
