"""From parameters to typed jobs: configurations, verbs, records, code fingerprints and locks."""
