"""What holds of every figure that a test draws."""

from typing import Any

import pytest
from matplotlib.figure import Figure


@pytest.fixture(autouse=True)
def at_most_two_lines_stand_below_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    legend = Figure.legend

    def counted(self: Figure, *handles: Any, **options: Any) -> Any:
        assert len(options["title"].splitlines()) <= 2, options["title"]
        return legend(self, *handles, **options)

    monkeypatch.setattr(Figure, "legend", counted)
