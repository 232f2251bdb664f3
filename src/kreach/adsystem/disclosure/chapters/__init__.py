"""Chapters: pieces of a log that are large enough to be shown as a whole."""
