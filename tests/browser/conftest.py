"""Browsers on a running console. Their errors and requests to other sites fail a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from tests.browser.locators import NewPage
from tests.browser.services import Services, chromium, firefox, start_services, write_store

expect.set_options(timeout=20_000)  # the machine may be busy


@pytest.fixture(scope="package")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("console")
    with start_services(folder, write_store(folder)) as running:
        yield running


@pytest.fixture(scope="package")
def playwright(services: Services) -> Iterator[Playwright]:
    """Closed with the package: while it runs, no other test can have an event loop."""
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Chromium."""
    launched = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
    yield launched
    launched.close()


@pytest.fixture(scope="package")
def firefox_browser(playwright: Playwright) -> Iterator[Browser]:
    """Firefox as Debian builds it, through WebDriver BiDi."""
    launched = playwright.firefox.launch(channel="moz-firefox", executable_path=firefox())
    yield launched
    launched.close()


@contextmanager
def page_opener(browser: Browser) -> Iterator[NewPage]:
    """Opens pages and collects their errors, which fail the test at its end."""
    errors: list[str] = []
    contexts = []

    def open_page(base: str, ignore_messages: bool = False, **options: Any) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 860}} | options))
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()

        def check_message(message: Any) -> None:
            if message.type in ("error", "warning") and not ignore_messages:
                errors.append(f"{message.type}: {message.text}")

        def check_request(request: Any) -> None:
            own = (base, base.replace("http://", "ws://"), "data:", "blob:")
            if not request.url.startswith(own):
                errors.append(f"requested {request.url}")

        page.on("console", check_message)
        page.on("pageerror", lambda error: errors.append(f"failed: {error}"))
        page.on("request", check_request)
        page.on("websocket", check_request)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors, errors


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    with page_opener(browser) as open_page:
        yield open_page


@pytest.fixture
def new_firefox_page(firefox_browser: Browser) -> Iterator[NewPage]:
    with page_opener(firefox_browser) as open_page:
        yield open_page


@pytest.fixture
def page(services: Services, new_page: NewPage) -> Page:
    return new_page(services.url)
