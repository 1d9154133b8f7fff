"""Scheduling: what the allocation of chips to jobs cost, from the records of schedulers."""
