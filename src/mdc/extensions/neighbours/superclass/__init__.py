"""SuperClass: the set of a caption's tokens."""
