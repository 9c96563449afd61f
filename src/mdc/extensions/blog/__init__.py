"""What a blog post claims: other encoders and decoders."""
