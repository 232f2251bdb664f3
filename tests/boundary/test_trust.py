"""Import contracts: the ad system lives without the publisher, and nothing is loaded early."""

import subprocess
import sys
import textwrap

import pytest

import kreach as kr


def run(script: str) -> subprocess.CompletedProcess[str]:
    """In an interpreter of its own, so that nothing is imported yet."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
    )


def succeeds(script: str) -> None:
    done = run(script)
    assert done.returncode == 0, done.stderr


def test_the_ad_system_measures_with_the_publisher_made_unimportable() -> None:
    succeeds(
        """
        import sys
        for name in ("kreach.publisher", "kreach.lab", "kreach.cli"):
            sys.modules[name] = None
        import kreach
        report = kreach.measure(kreach.Audience.disjoint([2, 2]), [2, 0], 1)
        assert report.reach == 1.5, report.reach
        overlap = kreach.Audience.overlapping([2, 2], [((0, 1), 1)])
        assert kreach.measure(overlap, [2, 1], 1).interval(0.9)
        assert kreach.measure(kreach.Audience.profiled([[0.5, 0.5]]), [2], 1).std == 0.5
        meter = kreach.ReachMeter(overlap, [1])
        meter.record(0)
        kreach.RollingReachMeter(overlap, [1], 60).record(0, 5.0)
        kreach.sample_reach(overlap, [2, 1], 1, 5, 0)
        """
    )


def test_every_module_of_measurement_imports_without_the_publisher() -> None:
    succeeds(
        """
        import importlib, pkgutil, sys
        for name in ("kreach.publisher", "kreach.lab", "kreach.cli"):
            sys.modules[name] = None
        import kreach.adsystem.measurement, kreach.numeric
        for package in (kreach.adsystem.measurement, kreach.numeric):
            for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
                importlib.import_module(module.name)
        """
    )


def test_numbers_know_nothing_of_what_stands_above_them() -> None:
    succeeds(
        """
        import importlib, pkgutil, sys
        import kreach.numeric
        for module in pkgutil.iter_modules(kreach.numeric.__path__, "kreach.numeric."):
            importlib.import_module(module.name)
        above = ("adsystem", "publisher", "boundary", "lab", "cli")
        loaded = [n for n in sys.modules if n.startswith(tuple(f"kreach.{a}" for a in above))]
        assert not loaded, loaded
        """
    )


def test_importing_kreach_loads_no_arrays() -> None:
    succeeds(
        """
        import sys
        import kreach
        kreach.KreachError, kreach.__version__, dir(kreach)
        heavy = {name.split(".")[0] for name in sys.modules} & {"numpy", "scipy", "typer", "pandas"}
        assert not heavy, heavy
        """
    )


def test_measuring_does_not_load_what_only_overlap_needs() -> None:
    """Solvers and graphs are slow to import, so plain reports do without."""
    succeeds(
        """
        import sys
        import kreach
        report = kreach.measure(kreach.Audience.disjoint([5] * 3, dispersion=0.5), [4, 2, 9], 2)
        report.reach, report.variance, report.bounds, report.interval(0.9), report.frequency(3)
        assert not [name for name in sys.modules if name.split(".")[0] == "scipy"]
        """
    )


def test_the_lack_of_the_publisher_is_noticed_when_it_is_asked_for() -> None:
    """The trick of the tests above does what it is meant to."""
    done = run(
        """
        import sys
        sys.modules["kreach.publisher"] = None
        import kreach.publisher
        """
    )
    assert done.returncode != 0
    assert "kreach.publisher" in done.stderr


@pytest.mark.parametrize("name", kr.__all__)
def test_public_names_resolve(name: str) -> None:
    assert getattr(kr, name) is not None
    assert name in dir(kr)


def test_public_names_of_the_contract_are_there() -> None:
    promised = {
        "Audience",
        "KreachError",
        "ReachMeter",
        "measure",
        "reach_probability",
        "sample_reach",
    }
    assert promised <= set(kr.__all__)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="kreach"):
        _ = kr.no_such_name
