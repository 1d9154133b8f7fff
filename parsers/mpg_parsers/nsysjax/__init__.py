"""Archives of NVIDIA's nsys-jax (JAX-Toolbox): NVTX ranges of XLA projected on the GPU, and the programs that ran."""
