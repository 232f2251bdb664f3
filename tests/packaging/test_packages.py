"""Wheel and sdist: what is in them, and that the wheel works in an empty environment."""

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import kreach

pytestmark = pytest.mark.xdist_group("packaging")
ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".uv" / "bin" / "uv"
EXTRAS = {"spark", "redis", "dp", "lab"}


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Standard output of a command that must succeed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=kept, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--quiet", "--out-dir", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with the wheel and what it depends on, at the locked versions."""
    folder = tmp_path_factory.mktemp("venv") / "venv"
    locked = folder.parent / "locked.txt"
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    run(
        *(UV, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes"),
        *("--output-file", locked),
    )
    python = folder / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", python, "--constraint", locked, wheel)
    return folder


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as held:
        return set(held.namelist())


def test_types_are_in_the_wheel(wheel: Path) -> None:
    assert "kreach/py.typed" in names_in(wheel)


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = names_in(wheel)
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"kreach", f"kreach-{kreach.__version__}.dist-info"}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert sources <= names


def test_extras_and_version(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as held:
        text = held.read(f"kreach-{kreach.__version__}.dist-info/METADATA").decode()
    told = HeaderParser().parsestr(text)
    assert told["Version"] == kreach.__version__
    assert set(told.get_all("Provides-Extra") or ()) >= EXTRAS
    assert told["License-Expression"] == "Apache-2.0"
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(declared["optional-dependencies"]) == set(told.get_all("Provides-Extra") or ())


def test_the_sdist_holds_what_is_needed_to_build_and_test(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/kreach/py.typed"} <= names
    assert not [name for name in names if name.startswith((".venv", ".uv", "site/", "out/"))]


def test_the_command_of_the_wheel_works(environment: Path, tmp_path: Path) -> None:
    command = environment / "bin" / "kreach"
    assert run(command, "--version", cwd=tmp_path) == f"kreach {kreach.__version__}\n"
    text = run(command, "--help", cwd=tmp_path)
    for name in ("demo", "measure", "groups", "plan", "serve", "evaluate", "reproduce"):
        assert name in text


def test_the_wheel_runs_the_whole_system(environment: Path, tmp_path: Path) -> None:
    command = environment / "bin" / "kreach"
    asked = ("--people", "400", "--minutes", "0.15", "--visits", "4", "--json")
    told = json.loads(run(command, "demo", *asked, cwd=tmp_path))
    assert told["share_of_flight"] == 1.0
    assert {one["campaign"] for one in told["campaigns"]} == {
        *("spring-shoes", "city-concert", "paper-rule"),
    }
    assert all(one["impressions"] > 0 for one in told["campaigns"])
    assert list((tmp_path / "kreach-demo" / "store" / "log").rglob("*.parquet"))


def test_the_library_of_the_wheel_measures(environment: Path, tmp_path: Path) -> None:
    program = (
        "import kreach as kr; print(kr.__file__);"
        " print(round(kr.measure(kr.Audience.disjoint([20] * 500), [30] * 500, cap=2).reach))"
    )
    where, reach = run(environment / "bin" / "python", "-c", program, cwd=tmp_path).split()
    assert Path(where).is_relative_to(environment)
    assert reach == "12318"


def test_an_extra_that_is_missing_is_named(environment: Path, tmp_path: Path) -> None:
    program = "import kreach as kr; kr.SparkEngine()"
    done = subprocess.run(
        [environment / "bin" / "python", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(
        "must be installed with kreach[spark] to be used, got 'spark'"
    )
