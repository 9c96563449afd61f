"""The registry: every dataset by its name."""

from mdc.plan.records import UserError
from mdc.plan.registry import captioned, choices, embedded, pretraining, probes, tokenizers
from mdc.plan.registry.entry import RegistryEntry

#: name → entry, in the order in which they are listed
REGISTRY: dict[str, RegistryEntry] = {
    entry.name: entry
    for entry in (
        *pretraining.ENTRIES,
        *probes.ENTRIES,
        *captioned.ENTRIES,
        *choices.ENTRIES,
        *tokenizers.ENTRIES,
        *embedded.ENTRIES,
    )
}


def find(name: str) -> RegistryEntry:
    """The entry called ``name``; UserError that lists all names if there is none."""
    if name not in REGISTRY:
        raise UserError(f"no dataset '{name}' in the registry; allowed: {', '.join(REGISTRY)}")
    return REGISTRY[name]
