"""What is particular to Nsight Compute's exports: pages, units, and the formulas of its section files."""
