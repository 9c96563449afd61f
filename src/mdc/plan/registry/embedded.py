"""Datasets that this project renders itself or reads from an installed package; there is nothing to obtain."""

from mdc.plan.registry.entry import RegistryEntry

ENTRIES = (
    RegistryEntry(
        name="scenes",
        label="Scenes",
        used_for=("pretraining", "probe"),
        origin="embedded",
        url="",
        citation="this project",
        reference="Rendered coloured shapes with relations, in two caption styles",
        licence="MIT License",
        licence_note="Drawn by this project's code, whose licence holds.",
        items={},
        note="As many as the scale asks for.",
    ),
    RegistryEntry(
        name="digits",
        label="Digits",
        used_for=("probe",),
        origin="embedded",
        url="https://archive.ics.uci.edu/dataset/80",
        citation="Alpaydin and Kaynak, 1998",
        reference="Optical Recognition of Handwritten Digits, UCI Machine Learning Repository",
        licence="CC BY 4.0",
        licence_note="Its page: CC BY 4.0. The copy used is the one in scikit-learn (BSD 3-Clause).",
        items={"all": 1797},
        note="Part of the installed scikit-learn.",
    ),
)
