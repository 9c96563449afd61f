"""Scripts that run in environments of their own, because what they call does not run in ours."""
