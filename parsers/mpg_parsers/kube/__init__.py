"""What `kubectl get … -o json` writes: pods, events, nodes, jobs and Kueue's workloads."""
