"""What is made once, before any run: weights that are brought from others, and what frozen encoders make of a corpus's images."""
