"""Sizes in bytes, for people."""


def size(bytes_: int | None) -> str:
    """A readable size: three digits and a decimal unit; empty if it is unknown."""
    if bytes_ is None:
        return ""
    value, unit = float(bytes_), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"
