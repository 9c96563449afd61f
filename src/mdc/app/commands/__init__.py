"""The command line's verbs for a person: what each takes, and which module answers."""
