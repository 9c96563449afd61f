"""From parameters to typed jobs: configuration, verbs, records, fingerprints and locks."""
