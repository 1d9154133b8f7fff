"""What is particular to PyTorch-profiler (Kineto) traces: events, categories, ranks, clean-up."""
