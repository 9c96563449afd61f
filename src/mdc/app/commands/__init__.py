"""The command line's verbs for users: their options and modules."""
