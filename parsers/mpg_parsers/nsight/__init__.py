"""Nsight Systems exports: tables of a report, as SQLite or as a folder of Parquet files."""
