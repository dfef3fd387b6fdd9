"""Pages opened in a headless Chromium; a test that takes ``open_page`` skips where there is none."""

import os
import shutil
from contextlib import contextmanager

import pytest


def find_chromium():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def open_page():
    """``with open_page(path, scheme, width) as page``: no complaint of the page may be left, and no request but for the file."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the page was not opened")
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium is installed (set CHROMIUM to one): the page was not opened")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])

        @contextmanager
        def opened(path, scheme="light", width=1200, height=800):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            complaints, requests = [], []
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda message: complaints.append(message.text))
            page.on("request", lambda request: requests.append(request.url))
            page.goto(path.as_uri())
            yield page
            assert complaints == []
            assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
            page.close()

        yield opened
        browser.close()
