"""Abilities of trained models: encode, score, generate."""
