"""The figures of a blog post's claims."""
