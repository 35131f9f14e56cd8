"""Whole models on the CPU: the rooms of ``bench/cpu.py``."""
