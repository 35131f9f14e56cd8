"""Measurements on an NVIDIA GPU: see bench/gpu.py."""
