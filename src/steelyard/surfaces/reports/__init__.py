"""Documents of a statement: CSV, Parquet, XLSX, PDF and FOCUS, each a pure function of it.

Libraries of the extra ``report`` are loaded when a document needs one.
"""
