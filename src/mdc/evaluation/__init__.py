"""Evaluation of trained models: features, probes, scores, captions and their metrics."""
