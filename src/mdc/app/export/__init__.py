"""What was trained, as files that other people's programs read."""
