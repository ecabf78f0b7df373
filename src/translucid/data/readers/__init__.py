"""From users' files to records: text, tables, CoNLL, JSON lines, parquet."""
