"""Profiles of XLA (JAX, TensorFlow, PyTorch/XLA): XPlane protobuf files and the Chrome JSON made from them."""
