"""Light, dark, phone and wide: the key places of a flow are looked at in all of them."""

from collections.abc import Iterator
from typing import Literal

from playwright.sync_api import Error, Locator, Page, expect

__all__ = ["VARIANTS", "in_each", "seen_in_all"]

Scheme = Literal["light", "dark"]
VARIANTS: dict[str, tuple[int, Scheme]] = {
    "light": (1280, "light"),
    "dark": (1280, "dark"),
    "phone": (360, "dark"),
    "wide": (1920, "light"),
}
_HEIGHT = 860
_PROBLEMS = """
([places, scheme]) => {
  const problems = [], width = innerWidth;
  const dark = document.body.classList.contains("body--dark");
  if (document.querySelector(".q-layout") && dark !== (scheme === "dark")) problems.push("theme");
  if (document.documentElement.scrollWidth > width) problems.push("wider than the screen");
  const rgb = (text) => {
    const n = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [n[0] * scale, n[1] * scale, n[2] * scale, n[3] ?? 1];
  };
  const light = (color) => {
    const [r, g, b] = color.map((c) => c / 255).map(
      (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (el) => {
    for (; el; el = el.parentElement) {
      const color = rgb(getComputedStyle(el).backgroundColor);
      if (color[3] > 0.99) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  for (const place of places) {
    const scrolls = place.closest(".k-scroll, .k-dialog, .q-dialog");
    if (!scrolls && place.getBoundingClientRect().right > width + 1)
      problems.push("cut off: " + place.outerHTML.slice(0, 80));
    for (const el of [place, ...place.querySelectorAll("*")]) {
      const own = [...el.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
      if (!own || !el.checkVisibility() || el.closest("[disabled], .disabled, .q-icon")) continue;
      const a = light(rgb(getComputedStyle(el).color).slice(0, 3)), b = light(behind(el));
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const words = el.textContent.trim().slice(0, 60);
      if (ratio < 4.5) problems.push(`contrast ${ratio.toFixed(2)}: ${words}`);
    }
  }
  return problems;
}
"""


def in_each(page: Page) -> Iterator[str]:
    """Show the page as it is in one variant after the other; then the screen is as before."""
    before = page.viewport_size
    for name, (width, scheme) in VARIANTS.items():
        page.set_viewport_size({"width": width, "height": _HEIGHT})
        page.emulate_media(color_scheme=scheme)
        yield name
    page.emulate_media(color_scheme="light")
    if before is not None:
        page.set_viewport_size(before)


def seen_in_all(page: Page, *places: Locator) -> None:
    """In each variant the places are visible and fit the screen, and their text can be read."""
    for name in in_each(page):
        for place in places:
            expect(place).to_be_visible()
        given = [[place.element_handle() for place in places], VARIANTS[name][1]]
        try:  # colors and charts take a moment to follow
            page.wait_for_function(f"(given) => ({_PROBLEMS})(given).length === 0", arg=given)
        except Error:
            raise AssertionError((name, page.evaluate(_PROBLEMS, given))) from None
