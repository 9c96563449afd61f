"""Scripts that run in environments of their own, because their dependencies conflict with ours."""
