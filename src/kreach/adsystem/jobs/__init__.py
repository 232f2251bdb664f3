"""Batch jobs over the whole log, for a scheduler: hourly reach, and the nightly merge of files."""
