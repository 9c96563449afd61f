"""What a trained model can be asked for: encode, score, generate."""
