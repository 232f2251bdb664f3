"""One contract for the impression log, whatever engine answers: DuckDB, Spark, plain Python."""
