"""Processes, GPUs, locks and signals."""
