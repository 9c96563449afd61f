"""LaViDa: a mask and its complement."""
