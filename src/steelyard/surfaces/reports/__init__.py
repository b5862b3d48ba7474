"""Documents: a statement as CSV, Parquet, XLSX, PDF and FOCUS files."""
