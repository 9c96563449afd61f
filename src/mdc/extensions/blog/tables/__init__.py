"""The tables of a blog post's claims."""
