"""What tests of pages share."""

from __future__ import annotations

from playwright.sync_api import Page


def settled(page: Page) -> None:
    """Wait until what was asked for last is shown."""
    page.wait_for_function("() => !('busy' in document.body.dataset)")


def follow(page: Page, selector: str) -> None:
    """Click, and wait for what comes."""
    page.locator(selector).first.click()
    settled(page)


def texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_inner_texts()]
