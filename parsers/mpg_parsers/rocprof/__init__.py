"""What is particular to rocprofv3's JSON: its records, and the tables they become."""
