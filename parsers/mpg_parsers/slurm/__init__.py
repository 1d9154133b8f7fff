"""What Slurm's tools print and keep: accounting, state, configuration and logs."""
