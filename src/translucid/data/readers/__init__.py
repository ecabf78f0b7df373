"""Read users' files into records: plain text, tables, CoNLL, JSON lines, Parquet."""
