"""Probes of a convolutional encoder."""

SHOWN = {
    "of": "methods",
    "artefacts": {"table_cnn": {"title": "Probes of a convolutional encoder"}},
}
