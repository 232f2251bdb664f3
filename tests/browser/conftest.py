"""A real Chromium on the real console. Errors in the browser and requests elsewhere fail a test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.worlds import World, chromium, made_world, opened

Pages = Callable[..., Page]
expect.set_options(timeout=20_000)  # of a machine that does other things as well


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("console")
    with opened(folder, made_world(folder)) as made:
        yield made


@pytest.fixture(scope="package")
def browser(world: World) -> Iterator[Browser]:
    """Ended with the package: while it is there, no other test can have an event loop."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def pages(browser: Browser) -> Iterator[Pages]:
    """Makes pages that write down what they should not do; looked at when the test is over."""
    wrong: list[str] = []
    contexts = []

    def made(base: str, forgiving: bool = False, **options: Any) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 860}} | options))
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()

        def said(message: Any) -> None:
            if message.type in ("error", "warning") and not forgiving:
                wrong.append(f"{message.type}: {message.text}")

        def asked(request: Any) -> None:
            own = (base, base.replace("http://", "ws://"), "data:", "blob:")
            if not request.url.startswith(own):
                wrong.append(f"asked {request.url}")

        page.on("console", said)
        page.on("pageerror", lambda error: wrong.append(f"failed: {error}"))
        page.on("request", asked)
        page.on("websocket", asked)
        return page

    yield made
    for context in contexts:
        context.close()
    assert not wrong, wrong


@pytest.fixture
def page(world: World, pages: Pages) -> Page:
    return pages(world.url)
