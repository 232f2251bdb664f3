"""Jobs over the whole log, for a scheduler: hourly reach, and the nightly gathering of files."""
