"""How long pages of the console take until something, and until figures are seen, in Chromium.

python -m benchmarks.console                       # over the log of a demo, which takes a minute
python -m benchmarks.console --rounds 9
python -m benchmarks.console --url http://127.0.0.1:8400    # of a demo that runs
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import BrowserContext, sync_playwright
from tools.screenshots import chromium

from benchmarks.timing import duration, print_table
from kreach.boundary.times import DAY_SECONDS
from kreach.lab.processes import ServiceProcess

__all__ = ["LAYOUT_SHIFT", "run"]

LAYOUT_SHIFT = """
window.layoutShift = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.layoutShift += one.value;
}).observe({type: "layout-shift", buffered: true});
"""
_SHOWN = """
(() => {
  const shows = (selector) => {
    const el = document.querySelector(selector);
    if (!el?.checkVisibility()) return false;
    return el.tagName === "CANVAS" || !["", "…"].includes(el.innerText.trim());
  };
  const look = () => {
    if (%s.every(shows)) window.shownAt = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""
_FIRST_PAINT = 'performance.getEntriesByName("first-contentful-paint")[0].startTime'
_CAMPAIGN, _OTHER = "spring-shoes", "city-concert"
_TILE = '[data-name="People reached"] .k-value'
_PAGES = {  # address, and what is seen when its figures are there
    "Campaigns": ("/", [f'[data-name="campaign {_CAMPAIGN}"] {_TILE}']),
    "Campaign": (
        f"/campaign/{_CAMPAIGN}",
        [_TILE, '[data-name="over time"] canvas', 'table[data-name="by cap"] td'],
    ),
    "Compare": (
        f"/compare?campaign={_CAMPAIGN}&campaign={_OTHER}",
        ['[data-name="People reached together"] .k-value', '[data-name="adds"] canvas'],
    ),
    "Planner, with a plan": ("/planner?goal=budget&amount={amount}", [_TILE]),
    "Privacy": ("/privacy", ['[data-name="overall verdict"]', '[data-name="Groups"] .k-value']),
    "Cost of anonymity": ("/cost", ['table[data-name="tradeoff"] td']),
}
_SETTLE_SECONDS = 1.5  # in which a page may still shift, and another's answers are forgotten
_DEMO_MINUTES, _SEEN_DAYS = 1.0, 6.0


@dataclass(frozen=True)
class _Visit:
    """One look at a page; times in seconds since it was asked for."""

    first_paint: float
    figures: float
    busy: float  # CPU time of the page's thread until then
    layout_shift: float


def _visit(context: BrowserContext, address: str, selectors: Sequence[str]) -> _Visit:
    page = context.new_page()
    page.add_init_script(LAYOUT_SHIFT + _SHOWN % json.dumps(selectors))
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address)
    page.wait_for_function("window.shownAt", timeout=60_000)
    metrics = {
        one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]
    }
    page.wait_for_timeout(1_000.0 * _SETTLE_SECONDS)
    first, shown = page.evaluate(f"[{_FIRST_PAINT}, window.shownAt]")
    shift = page.evaluate("window.layoutShift")
    page.close()
    return _Visit(first / 1_000.0, shown / 1_000.0, metrics["TaskDuration"], shift)


def _measure(url: str, rounds: int) -> dict[str, tuple[list[_Visit], list[_Visit]]]:
    """Visits with a new browser and with one that has been there, by page."""
    visits: dict[str, tuple[list[_Visit], list[_Visit]]] = {name: ([], []) for name in _PAGES}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for number in range(rounds + 1):
            for name, (path, selectors) in _PAGES.items():
                context = browser.new_context(viewport={"width": 1280, "height": 860})
                for at, times in enumerate(visits[name]):
                    amount = f"{2.0 + number + 0.5 * at:.1f}"  # a plan that nobody has asked for
                    times.append(_visit(context, url + path.format(amount=amount), selectors))
                context.close()
        browser.close()
    return visits


def _write_demo(folder: Path) -> None:
    """The log of a demo, and a study for the page about cost."""
    demo = [sys.executable, "-m", "kreach", "demo", "--headless", "--folder", str(folder)]
    command = [*demo, "--minutes", str(_DEMO_MINUTES)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    reach = {str(size): {"mean": 1.0 / size, "low": 0.0, "high": 1.0} for size in (1, 5, 20, 50)}
    study = {
        "setting": {"people": 10_000, "seed": 1},
        "relative_reach": {"random": {"planning_visitors": reach}},
        "measurement_error": {"random": {"dispersed": reach}},
        "advice": ["These numbers stand for a study."],
    }
    (folder / "study.json").write_text(json.dumps(study))


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    """The address of a console over the log of a demo, six days after its flights began."""
    text = (folder / "kreach.toml").read_text()
    now = tomllib.loads(text)["clock"]["start_seconds"] + _SEEN_DAYS * DAY_SECONDS
    (folder / "seen").write_text(repr(time.time()))
    clock = f'[clock]\nspeed = 1.0\nstart_seconds = {now}\nstart_file = "seen"\n'
    config = folder / "reporting.toml"
    config.write_text(text.partition("[clock]")[0] + clock)
    with ServiceProcess("reporting", config, folder / "reporting.log") as reporting:
        names = {
            "reporting_url": reporting.address(),
            "key_file": "operator.key",
            "groups_audit": "audit.json",
            "truth_file": "truth.json",
            "tradeoff": "study.json",
        }
        section = "".join(f"{name} = {json.dumps(value)}\n" for name, value in names.items())
        config = folder / "console.toml"
        config.write_text(f"[console]\n{section}{clock}")
        with ServiceProcess("console", config, folder / "console.log") as console:
            yield console.address()


def _row(name: str, new: list[_Visit], again: list[_Visit]) -> list[str]:
    first, *others = new
    figures = [visit.figures for visit in others]
    return [
        name,
        duration(statistics.median(visit.first_paint for visit in others)),
        duration(first.figures),
        duration(statistics.median(figures)),
        duration(max(figures)),
        duration(statistics.median(visit.figures for visit in again[1:])),
        duration(statistics.median(visit.busy for visit in others)),
        f"{max(visit.layout_shift for visit in (*new, *again)):.3f}",
    ]


def run(url: str | None = None, rounds: int = 5) -> None:
    """Print times by page, and the machine's load before and after."""
    if url is None:
        with tempfile.TemporaryDirectory(prefix="kreach-bench-") as folder:
            demo = Path(folder) / "demo"
            _write_demo(demo)
            with _serve(demo) as address:
                return run(address, rounds)
    load = os.getloadavg()[0]
    visits = _measure(url, rounds)
    heads = [
        "page",
        "first paint",
        "figures: first",
        "new browser",
        "worst",
        "again",
        "CPU",
        "shift",
    ]
    rows = [_row(name, *times) for name, times in visits.items()]
    print_table(f"{rounds} rounds, load {load:.1f} to {os.getloadavg()[0]:.1f}", heads, rows)
    return None


def main(arguments: Sequence[str]) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console")
    parser.add_argument("--url", help="a console that runs, with the campaigns of a demo")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    run(chosen.url and chosen.url.rstrip("/"), chosen.rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
