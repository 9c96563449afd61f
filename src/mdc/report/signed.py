"""A difference as text."""


def signed(value: float, decimals: int = 1) -> str:
    """``value`` with its sign, and a typographic minus; a zero has no sign."""
    text = f"{value:+.{decimals}f}".replace("-", "−")
    return text if text.strip("+−0.") else text[1:]
