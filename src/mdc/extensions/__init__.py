"""What other texts add to the core, a folder each."""
