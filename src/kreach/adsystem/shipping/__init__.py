"""The log leaves the machine: files to an object store, live rows through a durable stream."""
