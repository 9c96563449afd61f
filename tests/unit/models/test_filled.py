"""How many places captions are filled up to, and what of them is cut."""

from __future__ import annotations

from mdc.training.filled import filled_length


def test_it_is_the_least_multiple_of_eight_that_holds_them() -> None:
    for lengths, places in (
        ({7: 1000}, 8),  # seven pieces and EOT
        ({8: 1000}, 16),
        ({7: 995, 40: 5}, 8),  # 99.5 % are held
        ({7: 994, 40: 6}, 48),
        ({7: 500, 14: 495, 15: 1, 40: 4}, 16),
        ({300: 3}, 76),  # no more than the context leaves beside SOT
    ):
        assert filled_length(lengths, 77) == places
