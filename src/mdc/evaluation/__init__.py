"""What a trained model is asked: features, probes, scores, captions and their metrics."""
