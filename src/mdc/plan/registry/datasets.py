"""The registry: every dataset by its name."""

from pathlib import Path

from pydantic import TypeAdapter

from mdc.plan.config.yaml_core import read_yaml
from mdc.plan.parts import distinct
from mdc.plan.records import UserError, did_you_mean
from mdc.plan.registry.entry import RegistryEntry

_FILE = Path(__file__).with_suffix(".yaml")
_FILES = (_FILE, *sorted(_FILE.parents[2].glob("extensions/*/datasets.yaml")))
_VALUES = distinct([item for file in _FILES for item in read_yaml(file).items()], "dataset")
#: name → entry, in the order in which they are listed
REGISTRY: dict[str, RegistryEntry] = TypeAdapter(dict[str, RegistryEntry]).validate_python(
    {name: {"name": name, **values} for name, values in _VALUES.items()}
)


def find(name: str) -> RegistryEntry:
    """The entry called ``name``; UserError that lists all names if there is none."""
    if name not in REGISTRY:
        hint = did_you_mean(name, REGISTRY)
        raise UserError(f"no dataset '{name}' in the registry{hint}; allowed: {', '.join(REGISTRY)}")
    return REGISTRY[name]
