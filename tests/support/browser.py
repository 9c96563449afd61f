"""A real browser, as a reader has it: the Chromium of the system's packages, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

PATIENCE = 120_000  # milliseconds, on a machine that does other work too

#: of tests that look at a page
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here; install it with the system's package manager (apt-get install chromium)"
)


@contextmanager
def opened(width: int, scheme: Literal["light", "dark"] = "light", height: int = 900) -> Iterator[Any]:
    """An empty page of so many pixels, for a reader who prefers this colour scheme."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            context.set_default_timeout(PATIENCE)
            yield context.new_page()
        finally:
            browser.close()
