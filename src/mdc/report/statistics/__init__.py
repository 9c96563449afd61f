"""Items → replicates → estimates → claims."""
